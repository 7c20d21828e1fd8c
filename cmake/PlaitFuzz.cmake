# Fuzz targets: each tests/fuzz/fuzz_NAME.c defines LLVMFuzzerTestOneInput.
#
#   plait_fuzz()  always: the test fuzz/NAME, which replays tests/fuzz/corpus/NAME and small mutations of it through the
#                 target, with any compiler; with PLAIT_FUZZ and clang also fuzz_NAME, a libFuzzer program
#
# A comment `/* room: gguf */` near the top of the file names the room that the target is linked to; without it, it is the
# whole library. `/* mutations: 24 */` lets the test make so many of each kind of a file, where one input costs milliseconds;
# the target long-tests makes 256 all the same. scripts/fuzz NAME SECONDS builds and runs one.

# The libFuzzer programs need every object of the library to count edges.
function(plait_fuzz_flags)
  if(NOT CMAKE_C_COMPILER_ID MATCHES "Clang")
    message(FATAL_ERROR "PLAIT_FUZZ needs clang: configure with --preset fuzz")
  endif()
  target_compile_options(plait_flags INTERFACE -fsanitize=fuzzer-no-link)
  target_link_options(plait_flags INTERFACE -fsanitize=fuzzer-no-link)
endfunction()

function(plait_fuzz_target target source room)
  add_executable(${target} "${source}" ${ARGN})
  plait_test_target(${target})
  plait_link_room(${target} "${room}")
  # The entry point is declared by the fuzzer, not by a header of ours.
  target_compile_options(${target} PRIVATE -Wno-missing-prototypes)
endfunction()

function(plait_fuzz)
  set(folder "${PROJECT_SOURCE_DIR}/tests/fuzz")
  file(GLOB targets CONFIGURE_DEPENDS "${folder}/fuzz_*.c")
  foreach(source ${targets})
    get_filename_component(file "${source}" NAME_WE)
    string(REGEX REPLACE "^fuzz_" "" name "${file}")
    plait_note("${source}" room library room)
    plait_has_room(${room} present)
    if(NOT present)
      continue()
    endif()
    plait_fuzz_target(replay_${name} "${source}" ${room} "${folder}/replay_main.c")
    plait_note("${source}" mutations "" mutations)
    if(mutations)
      set_property(GLOBAL APPEND PROPERTY PLAIT_LONG_REPLAYS ${name})
    endif()
    add_test(NAME fuzz/${name} COMMAND replay_${name} "${folder}/corpus/${name}" ${mutations}
      WORKING_DIRECTORY "${PROJECT_BINARY_DIR}")
    plait_test_properties(fuzz/${name} "${source}" fuzz)
    if(PLAIT_FUZZ)
      plait_fuzz_target(fuzz_${name} "${source}" ${room})
      target_link_options(fuzz_${name} PRIVATE -fsanitize=fuzzer)
    endif()
  endforeach()
endfunction()
