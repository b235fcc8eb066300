# A part is a shared library that programs link to, with all that lets them find it: the CMake package's component and
# the pkg-config file.
include(CMakePackageConfigHelpers)
set(GW_CMAKE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/gpuwire)

# gw_part(TARGET NAME COMPONENT DESCRIPTION text [REQUIRES modules] [PRIVATE modules] [CFLAGS flags]): the shared library
# lib<NAME>, which CMake calls gpuwire::<COMPONENT>. REQUIRES: what its headers include, as pkg-config calls it; PRIVATE:
# what else it links to.
function(gw_part target name component)
  cmake_parse_arguments(A "" "DESCRIPTION;REQUIRES;PRIVATE;CFLAGS" "" ${ARGN})
  set_target_properties(${target} PROPERTIES OUTPUT_NAME ${name} EXPORT_NAME ${component})
  install(TARGETS ${target} EXPORT gpuwire-${component}
          LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
  install(EXPORT gpuwire-${component} NAMESPACE gpuwire:: DESTINATION ${GW_CMAKE_DIR})

  # From the file to the prefix, so that an installed tree may be moved.
  string(REGEX REPLACE "[^/]+" ".." up "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
  configure_file(${CMAKE_SOURCE_DIR}/cmake/part.pc.in ${CMAKE_BINARY_DIR}/${name}.pc @ONLY)
  install(FILES ${CMAKE_BINARY_DIR}/${name}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endfunction()

# gw_versioned(TARGET MAP): the library has a version in its name, finds the others beside itself, and shows what the
# map names alone.
function(gw_versioned target map)
  set_target_properties(${target} PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}
                        INSTALL_RPATH "$ORIGIN" LINK_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${map})
  target_link_options(${target} PRIVATE -Wl,--version-script=${CMAKE_CURRENT_SOURCE_DIR}/${map})
endfunction()

write_basic_package_version_file(${CMAKE_BINARY_DIR}/gpuwire-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES cmake/gpuwire-config.cmake ${CMAKE_BINARY_DIR}/gpuwire-config-version.cmake
        DESTINATION ${GW_CMAKE_DIR})
