# How a room of src/ becomes part of the library, and how tests find their room.
#
#   plait_room(NAME DEPS room... LIBS lib...)   compiles src/NAME/**.c; rooms without files yet are skipped
#   plait_library()                             libplait from all rooms: plait_shared (libplait.so) and plait_lib (libplait.a)
#   plait_program()                             the command line program from src/cli
#
# Tests are in PlaitTests.cmake and PlaitFuzz.cmake, installing in PlaitInstall.cmake.

include(CheckCCompilerFlag)
include(GNUInstallDirs)
find_package(Threads REQUIRED)
find_package(PkgConfig REQUIRED)
# PLAIT_KERNELS_ONLY leaves out the rooms that need more than libc, threads and libm.
set(PLAIT_TEXT_LIBS "")
if(NOT PLAIT_KERNELS_ONLY)
  pkg_check_modules(PCRE2 REQUIRED IMPORTED_TARGET libpcre2-8)
  pkg_check_modules(UTF8PROC REQUIRED IMPORTED_TARGET libutf8proc)
  pkg_check_modules(JANSSON REQUIRED IMPORTED_TARGET jansson)
  set(PLAIT_TEXT_LIBS PkgConfig::PCRE2 PkgConfig::UTF8PROC PkgConfig::JANSSON)
endif()

# hwloc belongs to the room device, which opens the library when a share of the machine is asked for: headers are needed
# to build that, the library never.
if(NOT DEFINED PLAIT_HWLOC)
  pkg_check_modules(PLAIT_HWLOC QUIET "hwloc>=2.4" "hwloc<3")
  if(NOT PLAIT_HWLOC_FOUND)
    message(STATUS "hwloc is missing: NUMA nodes and kinds of cores are read from the system's files alone")
  endif()
  set(PLAIT_HWLOC ${PLAIT_HWLOC_FOUND})
endif()
set_source_files_properties("${PROJECT_SOURCE_DIR}/src/device/topology_hwloc.c" PROPERTIES
  COMPILE_DEFINITIONS "PLAIT_HWLOC=$<BOOL:${PLAIT_HWLOC}>" INCLUDE_DIRECTORIES "${PLAIT_HWLOC_INCLUDE_DIRS}")

set(CMAKE_C_STANDARD 17)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()

add_library(plait_flags INTERFACE)
target_include_directories(plait_flags INTERFACE "${PROJECT_SOURCE_DIR}/src" "${PROJECT_SOURCE_DIR}/include")
target_compile_definitions(plait_flags INTERFACE PLAIT_VERSION="${PROJECT_VERSION}" _POSIX_C_SOURCE=200809L)
# Contraction is off: the order and rounding of every floating-point operation is written out (law 9).
target_compile_options(plait_flags INTERFACE -ffp-contract=off -fno-math-errno -Wall -Wextra -Wshadow
  -Wstrict-prototypes -Wmissing-prototypes -Wpointer-arith -Wwrite-strings -Wvla -Wundef -Wformat=2
  -Wno-format-nonliteral)
# GCC 12's vectoriser dies of our reductions on Arm (internal error in vect_transform_reduction); kernels are written
# with vector types and do not need it.
if(CMAKE_SYSTEM_PROCESSOR MATCHES "aarch64|arm64" AND CMAKE_C_COMPILER_ID STREQUAL "GNU"
   AND CMAKE_C_COMPILER_VERSION VERSION_LESS 13)
  target_compile_options(plait_flags INTERFACE -fno-tree-vectorize)
endif()
# Vectors as parameters are passed between functions of one file only.
target_compile_options(plait_flags INTERFACE -Wno-psabi)
# Messages are cut to fit the fixed error record on purpose.
check_c_compiler_flag(-Wformat-truncation PLAIT_HAS_FORMAT_TRUNCATION)
if(PLAIT_HAS_FORMAT_TRUNCATION)
  target_compile_options(plait_flags INTERFACE -Wno-format-truncation)
endif()
if(PLAIT_WERROR)
  target_compile_options(plait_flags INTERFACE -Werror)
endif()
if(PLAIT_SANITIZE)
  target_compile_options(plait_flags INTERFACE -fsanitize=${PLAIT_SANITIZE} -fno-sanitize-recover=all
    -fno-omit-frame-pointer -g)
  target_link_options(plait_flags INTERFACE -fsanitize=${PLAIT_SANITIZE})
endif()
if(PLAIT_COVERAGE)
  target_compile_options(plait_flags INTERFACE --coverage -O0 -g)
  target_link_options(plait_flags INTERFACE --coverage)
endif()

# Kernels of one instruction set live in files named *_ISA.c and are compiled with that set's flags only.
set(PLAIT_ISA_avx2 -mavx2 -mfma -mf16c)
set(PLAIT_ISA_avxvnni -mavx2 -mfma -mf16c -mavxvnni)
set(PLAIT_ISA_avx512 -mavx512f -mavx512bw -mavx512vl -mavx512dq -mfma -mf16c)
set(PLAIT_ISA_avx512vnni -mavx512f -mavx512bw -mavx512vl -mavx512dq -mavx512vnni -mfma -mf16c)

set_property(GLOBAL PROPERTY PLAIT_ROOMS "")

function(plait_room name)
  cmake_parse_arguments(ARG "" "" "DEPS;LIBS" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/${name}/*.c")
  add_library(plait_${name} INTERFACE)
  foreach(dep ${ARG_DEPS})
    target_link_libraries(plait_${name} INTERFACE plait_${dep})
  endforeach()
  target_link_libraries(plait_${name} INTERFACE plait_flags ${ARG_LIBS})
  if(NOT sources)
    return()
  endif()
  if(NOT CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
    list(FILTER sources EXCLUDE REGEX "_(avx2|avxvnni|avx512|avx512vnni)\\.c$")
  endif()
  foreach(isa avx2 avxvnni avx512 avx512vnni)
    foreach(source ${sources})
      if(source MATCHES "_${isa}\\.c$")
        set_source_files_properties("${source}" PROPERTIES COMPILE_OPTIONS "${PLAIT_ISA_${isa}}")
      endif()
    endforeach()
  endforeach()
  add_library(plait_${name}_objects OBJECT ${sources})
  target_link_libraries(plait_${name}_objects PRIVATE plait_flags ${ARG_LIBS})
  add_library(plait_${name}_archive STATIC $<TARGET_OBJECTS:plait_${name}_objects>)
  target_link_libraries(plait_${name}_archive PRIVATE plait_flags)
  target_link_libraries(plait_${name} INTERFACE plait_${name}_archive)
  foreach(dep ${ARG_DEPS})
    # The archive needs its dependencies behind it on the link line.
    target_link_libraries(plait_${name}_archive INTERFACE plait_${dep})
  endforeach()
  target_link_libraries(plait_${name}_archive INTERFACE ${ARG_LIBS})
  set_property(GLOBAL APPEND PROPERTY PLAIT_ROOMS ${name})
endfunction()

# What the shared library exports is said by headers: those of include/plait, in the symbol version PLAIT_0.1, and for the
# program of this build alone those of src that src/cli includes, in the version PLAIT_PRIVATE_0.1.0. PlaitExports.cmake
# writes the linker's script.
function(plait_exports out)
  file(GLOB headers CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/include/plait/*.h")
  file(GLOB program CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/cli/*.[ch]")
  set(private "")
  foreach(source ${program})
    file(STRINGS "${source}" lines REGEX "^#include \"[a-z]+/")
    list(APPEND private ${lines})
  endforeach()
  list(TRANSFORM private REPLACE "^#include \"(.*)\".*$" "${PROJECT_SOURCE_DIR}/src/\\1")
  list(FILTER private EXCLUDE REGEX "/src/(cli|plait)/")
  list(REMOVE_DUPLICATES private)
  set(script "${PROJECT_BINARY_DIR}/exports.map")
  add_custom_command(OUTPUT "${script}"
    COMMAND "${CMAKE_COMMAND}" "-DCC=${CMAKE_C_COMPILER}" "-DSOURCE=${PROJECT_SOURCE_DIR}" -DVERSION=${PROJECT_VERSION}
      -DABI=${PLAIT_ABI} "-DPUBLIC=${headers}" "-DPRIVATE=${private}" "-DOUT=${script}"
      -P "${PROJECT_SOURCE_DIR}/cmake/PlaitExports.cmake"
    DEPENDS ${headers} "${PROJECT_SOURCE_DIR}/include/plait/ops.inc" ${private} ${program}
      "${PROJECT_SOURCE_DIR}/cmake/PlaitExports.cmake"
    COMMENT "Listing exported functions" VERBATIM)
  set(${out} "${script}" PARENT_SCOPE)
endfunction()

# The shared library and the static one are made of the same objects. Tests and measuring programs, which see inside,
# use the static one; the program, examples and everybody else the shared one, so that a process with a vendor's device
# has one registry of devices and one error record.
function(plait_library)
  get_property(rooms GLOBAL PROPERTY PLAIT_ROOMS)
  set(objects "")
  foreach(room ${rooms})
    list(APPEND objects $<TARGET_OBJECTS:plait_${room}_objects>)
  endforeach()
  add_library(plait_lib STATIC ${objects})
  set_target_properties(plait_lib PROPERTIES OUTPUT_NAME plait)
  target_link_libraries(plait_lib PUBLIC plait_flags Threads::Threads m ${CMAKE_DL_LIBS} ${PLAIT_TEXT_LIBS})
  # Before 1.0 every minor version may change the interface.
  set(PLAIT_ABI ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
  plait_exports(script)
  add_library(plait_shared SHARED ${objects} "${script}")
  set_target_properties(plait_shared PROPERTIES OUTPUT_NAME plait EXPORT_NAME plait VERSION ${PROJECT_VERSION}
    SOVERSION ${PLAIT_ABI} LINK_DEPENDS "${script}" BUILD_RPATH_USE_ORIGIN ON)
  target_include_directories(plait_shared INTERFACE "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>"
    "$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>")
  target_link_libraries(plait_shared PRIVATE $<BUILD_INTERFACE:plait_flags> Threads::Threads m ${CMAKE_DL_LIBS}
    ${PLAIT_TEXT_LIBS})
  target_link_options(plait_shared PRIVATE "LINKER:--version-script=${script}")
  if(NOT PLAIT_SANITIZE AND NOT PLAIT_FUZZ)
    target_link_options(plait_shared PRIVATE LINKER:--no-undefined)
  endif()
endfunction()

function(plait_program)
  file(GLOB sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/cli/*.c")
  if(sources AND NOT PLAIT_KERNELS_ONLY)
    add_executable(plait ${sources})
    target_link_libraries(plait PRIVATE plait_shared plait_flags Threads::Threads m)
    # The library is found beside the program (in the build folder) or relative to it (where it is installed), so that
    # both can be moved; a program that was copied without its library says so.
    set(places "$ORIGIN")
    if(NOT IS_ABSOLUTE "${CMAKE_INSTALL_LIBDIR}" AND NOT IS_ABSOLUTE "${CMAKE_INSTALL_BINDIR}")
      file(RELATIVE_PATH up "/${CMAKE_INSTALL_BINDIR}" "/${CMAKE_INSTALL_LIBDIR}")
      list(APPEND places "$ORIGIN/${up}")
    endif()
    set_target_properties(plait PROPERTIES INSTALL_RPATH "${places}" BUILD_WITH_INSTALL_RPATH ON)
  endif()
endfunction()
