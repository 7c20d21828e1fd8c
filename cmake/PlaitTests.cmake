# How a file under tests/ becomes a test that ctest runs.
#
#   plait_tests()       tests/ROOM/**/test_*.c, each one program, named ROOM/NAME, linked against its room
#   plait_long_tests()  the target long-tests: sweeps that take too long for every change, run by hand
#   plait_tree_tests()  check/tree: the laws of the tree; check/check-tree: that they are seen when broken; check/install:
#                       that an installed plait can be used; check/device: that a vendor's device can be built for it;
#                       check/docs: that documents are true whose commands can be run
#
# A test may use its room and what is above it. The room is the folder's, or that of a comment `/* room: base */` near the
# top of the file; where it is none (tests/cli, tests/integration, tests/fault without such a comment), the test uses the
# whole library. Labels are the folder and the words of a comment `/* labels: slow serial */`: `slow` tests are left out
# of sanitizer runs, `serial` tests run alone. A comment `/* needs: plait_shared */` names targets that must be built too;
# `/* with: a b */` says that a.c and b.c of the same folder belong to the program.

# The macros by which a test finds its data.
function(plait_test_target target)
  get_filename_component(shared "${PROJECT_SOURCE_DIR}/../shared" ABSOLUTE)
  set(cache "$ENV{XDG_CACHE_HOME}")
  if(NOT cache)
    set(cache "~/.cache")
  endif()
  file(REAL_PATH "${cache}/plait" models EXPAND_TILDE) # as scripts/get-models
  target_include_directories(${target} PRIVATE "${PROJECT_SOURCE_DIR}/tests")
  target_compile_definitions(${target} PRIVATE PLAIT_GOLDEN_DIR="${PROJECT_SOURCE_DIR}/tests/golden"
    PLAIT_SOURCE_DIR="${PROJECT_SOURCE_DIR}" PLAIT_BINARY_DIR="${PROJECT_BINARY_DIR}" PLAIT_SHARED_DIR="${shared}"
    PLAIT_MODELS_DIR="${models}" PLAIT_C_COMPILER="${CMAKE_C_COMPILER}")
endfunction()

# Links `target` to a room, or to the whole library when there is no such room.
function(plait_link_room target room)
  if(TARGET plait_${room}_archive)
    target_link_libraries(${target} PRIVATE plait_${room})
  else()
    target_link_libraries(${target} PRIVATE plait_lib)
  endif()
endfunction()

# The word behind "KEY:" in a comment of its own near the top of a source, else `default`.
function(plait_note source key default out)
  file(STRINGS "${source}" line LIMIT_INPUT 4096 LIMIT_COUNT 1 REGEX "^/\\* ${key}: [a-z0-9_ ]+ \\*/$")
  if(line)
    string(REGEX REPLACE "^/\\* ${key}: ([a-z0-9_ ]+) \\*/$" "\\1" default "${line}")
  endif()
  set(${out} "${default}" PARENT_SCOPE)
endfunction()

# PLAIT_MONITOR_ALL: whoever can open devices gets a monitor around each (tests/support/monitor_all.c), but for tests that
# count allocations, and those with a comment `/* monitor: no */`.
function(plait_monitor_target target source room folder)
  plait_note("${source}" monitor yes monitor)
  set(without_devices base tensor op graph gguf text)
  if(NOT PLAIT_MONITOR_ALL OR monitor STREQUAL "no" OR room IN_LIST without_devices OR folder STREQUAL "fault")
    return()
  endif()
  target_sources(${target} PRIVATE "${PROJECT_SOURCE_DIR}/tests/support/monitor_all.c")
  target_link_options(${target} PRIVATE
    -Wl,--wrap=plait_context_open,--wrap=plait_context_reopen,--wrap=plait_context_close,--wrap=plait_device_create)
  set_source_files_properties("${PROJECT_SOURCE_DIR}/tests/support/monitor_all.c" PROPERTIES COMPILE_DEFINITIONS
    PLAIT_MONITOR_ALL_LEVEL=PLAIT_MONITOR_${PLAIT_MONITOR_ALL})
endfunction()

# True in ${out} when the build has what a test of `room` needs.
function(plait_has_room room out)
  if(PLAIT_KERNELS_ONLY AND NOT TARGET plait_${room}_archive)
    set(${out} FALSE PARENT_SCOPE)
  else()
    set(${out} TRUE PARENT_SCOPE)
  endif()
endfunction()

# What ctest is told of a test: labels, a time limit, and that a skipped case is a failed one.
function(plait_test_properties name source)
  plait_note("${source}" labels "" labels)
  separate_arguments(labels)
  list(APPEND labels ${ARGN})
  set_tests_properties(${name} PROPERTIES LABELS "${labels}" TIMEOUT 900
    FAIL_REGULAR_EXPRESSION "\\[  SKIPPED \\]"
    ENVIRONMENT "XDG_CACHE_HOME=${PROJECT_BINARY_DIR}/test-cache") # figures of this build are nobody else's
  if("serial" IN_LIST labels)
    set_tests_properties(${name} PROPERTIES RUN_SERIAL TRUE)
  endif()
endfunction()

function(plait_tests)
  pkg_check_modules(CMOCKA REQUIRED IMPORTED_TARGET cmocka)
  set(libraries PkgConfig::CMOCKA)
  if(NOT PLAIT_KERNELS_ONLY)
    pkg_check_modules(ZLIB REQUIRED IMPORTED_TARGET zlib) # vocabularies of tests/golden/tokenizers
    list(APPEND libraries PkgConfig::ZLIB)
  endif()
  add_library(plait_fault STATIC "${PROJECT_SOURCE_DIR}/tests/fault/fault.c")
  target_link_libraries(plait_fault PUBLIC plait_base PRIVATE PkgConfig::CMOCKA)
  target_include_directories(plait_fault PUBLIC "${PROJECT_SOURCE_DIR}/tests")
  target_link_options(plait_fault INTERFACE
    -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=aligned_alloc,--wrap=free)
  file(GLOB_RECURSE tests CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/tests/test_*.c")
  foreach(source ${tests})
    file(RELATIVE_PATH path "${PROJECT_SOURCE_DIR}/tests" "${source}")
    string(REGEX MATCH "^[^/]+" folder "${path}")
    plait_note("${source}" room ${folder} room)
    plait_has_room(${room} present)
    if(NOT present)
      continue()
    endif()
    get_filename_component(name "${source}" NAME_WE)
    string(REGEX REPLACE "^test_" "" name "${name}")
    set(target test_${folder}_${name})
    add_executable(${target} "${source}")
    plait_test_target(${target})
    plait_note("${source}" with "" companions)
    separate_arguments(companions)
    foreach(companion ${companions})
      target_sources(${target} PRIVATE "${PROJECT_SOURCE_DIR}/tests/${folder}/${companion}.c")
    endforeach()
    if(folder STREQUAL "fault")
      target_link_libraries(${target} PRIVATE plait_fault)
    endif()
    plait_link_room(${target} ${room})
    plait_monitor_target(${target} "${source}" ${room} ${folder})
    target_link_libraries(${target} PRIVATE ${libraries})
    plait_note("${source}" needs "" needs)
    separate_arguments(needs)
    if(needs)
      add_dependencies(${target} ${needs})
    endif()
    add_test(NAME ${folder}/${name} COMMAND ${target} WORKING_DIRECTORY "${PROJECT_BINARY_DIR}")
    plait_test_properties(${folder}/${name} "${source}" ${folder})
  endforeach()
endfunction()

function(plait_long_tests)
  set(commands)
  if(TARGET test_run_unequal)
    list(APPEND commands COMMAND test_run_unequal 0 10000)
  endif()
  if(TARGET test_conformance_sim_settings)
    list(APPEND commands COMMAND test_conformance_sim_settings all)
  endif()
  if(TARGET test_model_real_spread)
    list(APPEND commands COMMAND test_model_real_spread all)
  endif()
  # Targets whose tests make few mutations: here they make all.
  get_property(replays GLOBAL PROPERTY PLAIT_LONG_REPLAYS)
  foreach(name ${replays})
    list(APPEND commands COMMAND replay_${name} "${PROJECT_SOURCE_DIR}/tests/fuzz/corpus/${name}")
  endforeach()
  if(NOT commands)
    return()
  endif()
  add_custom_target(long-tests ${commands} USES_TERMINAL VERBATIM COMMENT
    "Ten thousand random graphs on unequal devices, the suite on all simulated devices, all mutations of corpora")
endfunction()

function(plait_tree_tests)
  if(PLAIT_SANITIZE OR PLAIT_COVERAGE OR PLAIT_KERNELS_ONLY)
    return()
  endif()
  set(scripts "${PROJECT_SOURCE_DIR}/scripts")
  add_test(NAME check/tree COMMAND "${scripts}/check-tree" --cc "${CMAKE_C_COMPILER}")
  add_test(NAME check/install COMMAND "${scripts}/check-install" "${PROJECT_BINARY_DIR}" "${CMAKE_C_COMPILER}")
  add_test(NAME check/check-tree COMMAND "${PROJECT_SOURCE_DIR}/tests/check/check_tree.py" "${CMAKE_C_COMPILER}")
  add_test(NAME check/device-quick COMMAND "${scripts}/check-device" "${PROJECT_BINARY_DIR}" "${CMAKE_C_COMPILER}" --quick)
  add_test(NAME check/device COMMAND "${scripts}/check-device" "${PROJECT_BINARY_DIR}" "${CMAKE_C_COMPILER}")
  set_tests_properties(check/tree check/install check/check-tree check/device-quick check/device
    PROPERTIES LABELS check TIMEOUT 300)
  add_test(NAME check/docs COMMAND "${scripts}/check-docs" "${PROJECT_BINARY_DIR}" --cc "${CMAKE_C_COMPILER}")
  set_tests_properties(check/device check/docs PROPERTIES LABELS "check;slow" TIMEOUT 900)
endfunction()
