# What `cmake --install` puts where: headers, the shared and the static library, pkg-config file and CMake package,
# program, man pages, completions, licence, documents, the example of a device. Everything is found relative to where it
# lies: an installed tree can be moved.
#
#   plait_install()

include(CMakePackageConfigHelpers)

function(plait_install)
  # What the rooms need beyond libc: only those who link the static library need it again. Named as libraries, not as
  # pkg-config modules, whose development files nobody else needs.
  string(JOIN " " PLAIT_STATIC_LIBS ${PCRE2_LDFLAGS} ${UTF8PROC_LDFLAGS} ${JANSSON_LDFLAGS} -lm -ldl -pthread)
  install(DIRECTORY "${PROJECT_SOURCE_DIR}/include/plait" DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
    FILES_MATCHING PATTERN "*.h" PATTERN "*.inc")
  install(TARGETS plait_lib ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
  install(TARGETS plait_shared EXPORT plait LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
  install(FILES "${PROJECT_SOURCE_DIR}/LICENSE" "${PROJECT_SOURCE_DIR}/NOTICE" DESTINATION ${CMAKE_INSTALL_DOCDIR})
  # The documents, and for those who write a device the example that theirs refers to.
  install(DIRECTORY "${PROJECT_SOURCE_DIR}/docs" DESTINATION ${CMAKE_INSTALL_DOCDIR} FILES_MATCHING PATTERN "*.md"
    PATTERN "man" EXCLUDE)
  install(DIRECTORY "${PROJECT_SOURCE_DIR}/examples/device" DESTINATION ${CMAKE_INSTALL_DOCDIR}/examples
    FILES_MATCHING PATTERN "*.c" PATTERN "*.h" PATTERN "CMakeLists.txt" PATTERN "README.md")
  plait_install_pkg_config()
  plait_install_package()
  if(NOT TARGET plait)
    return()
  endif()
  install(TARGETS plait RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  file(GLOB pages CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/docs/man/*.1")
  install(FILES ${pages} DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
  # Each shell wants its own folder and name.
  set(data ${CMAKE_INSTALL_DATADIR})
  plait_install_completion(bash ${data}/bash-completion/completions plait)
  plait_install_completion(zsh ${data}/zsh/site-functions _plait)
  plait_install_completion(fish ${data}/fish/vendor_completions.d plait.fish)
endfunction()

function(plait_install_completion shell folder name)
  set(source "${PROJECT_SOURCE_DIR}/completions/plait.${shell}")
  if(EXISTS "${source}")
    install(FILES "${source}" DESTINATION ${folder} RENAME ${name})
  endif()
endfunction()

function(plait_install_pkg_config)
  # Relative to the file itself, so that the installed tree can be moved.
  set(PLAIT_PC_PREFIX "${CMAKE_INSTALL_PREFIX}")
  if(NOT IS_ABSOLUTE "${CMAKE_INSTALL_LIBDIR}")
    file(RELATIVE_PATH up "/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/")
    set(PLAIT_PC_PREFIX "\${pcfiledir}/${up}")
  endif()
  foreach(kind LIBDIR INCLUDEDIR)
    if(IS_ABSOLUTE "${CMAKE_INSTALL_${kind}}")
      set(PLAIT_PC_${kind} "${CMAKE_INSTALL_${kind}}")
    else()
      set(PLAIT_PC_${kind} "\${prefix}/${CMAKE_INSTALL_${kind}}")
    endif()
  endforeach()
  configure_file("${PROJECT_SOURCE_DIR}/plait.pc.in" "${PROJECT_BINARY_DIR}/plait.pc" @ONLY)
  install(FILES "${PROJECT_BINARY_DIR}/plait.pc" DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endfunction()

# find_package(plait) gives plait::plait, the shared library, and plait::static.
function(plait_install_package)
  set(folder ${CMAKE_INSTALL_LIBDIR}/cmake/plait)
  configure_package_config_file("${PROJECT_SOURCE_DIR}/cmake/plaitConfig.cmake.in"
    "${PROJECT_BINARY_DIR}/plaitConfig.cmake" INSTALL_DESTINATION ${folder}
    PATH_VARS CMAKE_INSTALL_INCLUDEDIR CMAKE_INSTALL_LIBDIR NO_CHECK_REQUIRED_COMPONENTS_MACRO)
  # Before 1.0 every minor version may change the interface.
  write_basic_package_version_file("${PROJECT_BINARY_DIR}/plaitConfigVersion.cmake" COMPATIBILITY SameMinorVersion)
  install(FILES "${PROJECT_BINARY_DIR}/plaitConfig.cmake" "${PROJECT_BINARY_DIR}/plaitConfigVersion.cmake"
    DESTINATION ${folder})
  install(EXPORT plait NAMESPACE plait:: FILE plaitTargets.cmake DESTINATION ${folder})
endfunction()
