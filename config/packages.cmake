# SPDX-License-Identifier: Apache-2.0
# Debian packages: posed, posed-tools, libposed0, libposed-dev, from any build by `cpack -G DEB`; what
# depends on which library dpkg-shlibdeps finds out. A build with CUDA gives posed-cuda and
# posed-tools-cuda instead of the first two: they provide them, and either takes the other's place
# (debian/postinst). The CUDA runtime is linked in and looks for the driver when it starts, so they
# depend on no package of NVIDIA's.
set(debian ${PROJECT_SOURCE_DIR}/config/debian)
configure_file(${debian}/changelog config/changelog @ONLY)
find_program(POSED_GZIP gzip)
add_custom_command(OUTPUT ${PROJECT_BINARY_DIR}/config/changelog.gz
  COMMAND ${POSED_GZIP} -9nc config/changelog > config/changelog.gz
  WORKING_DIRECTORY ${PROJECT_BINARY_DIR} DEPENDS ${PROJECT_BINARY_DIR}/config/changelog VERBATIM)
add_custom_target(changelog ALL DEPENDS ${PROJECT_BINARY_DIR}/config/changelog.gz)
foreach(pair daemon:posed tools:posed-tools library:libposed0 dev:libposed-dev)
  string(REPLACE ":" ";" pair ${pair})
  list(GET pair 0 component)
  list(GET pair 1 package)
  string(TOUPPER ${component} COMPONENT)
  if(component MATCHES "daemon|tools")
    set(other ${package}-cuda)
    if(POSED_HAVE_CUDA)
      set(other ${package})
      string(APPEND package -cuda)
      set(CPACK_DEBIAN_${COMPONENT}_PACKAGE_PROVIDES "${other} (= ${PROJECT_VERSION})")
      set(suggests_${component} "libcuda1, ")
      set(title_${component} ", CUDA")
    endif()
    set(CPACK_DEBIAN_${COMPONENT}_PACKAGE_CONFLICTS ${other})
    set(CPACK_DEBIAN_${COMPONENT}_PACKAGE_REPLACES ${other})
  endif()
  install(FILES ${debian}/copyright ${PROJECT_BINARY_DIR}/config/changelog.gz
    DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/${package} COMPONENT ${component})
  set(CPACK_DEBIAN_${COMPONENT}_PACKAGE_NAME ${package})
endforeach()

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME posed)
set(CPACK_PACKAGE_CONTACT "The authors of posed <maintainers@users.noreply.a-seed-2483c561.example>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "camera poses from a depth camera")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_GROUPING IGNORE)
set(CPACK_COMPONENTS_ALL daemon tools library dev)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)

set(CPACK_DEBIAN_DAEMON_PACKAGE_SECTION science)
set(CPACK_DEBIAN_DAEMON_PACKAGE_DEPENDS adduser)
set(CPACK_DEBIAN_DAEMON_PACKAGE_SUGGESTS "${suggests_daemon}posed-tools")
set(CPACK_DEBIAN_DAEMON_PACKAGE_CONTROL_EXTRA
  "${debian}/postinst;${debian}/prerm;${debian}/postrm;${debian}/conffiles")
set(CPACK_COMPONENT_DAEMON_DESCRIPTION "camera poses from a depth camera: the daemon${title_daemon}
 posed turns a depth camera or a recording into a stream of camera poses on
 ZeroMQ, with a page to look at. It also registers point sets and finds known
 objects.")
set(CPACK_DEBIAN_TOOLS_PACKAGE_SECTION science)
set(CPACK_COMPONENT_TOOLS_DESCRIPTION "camera poses from a depth camera: tools${title_tools}
 posectl asks and watches a running posed; the others measure, compare
 trajectories, write synthetic recordings and align scans.")
set(CPACK_DEBIAN_LIBRARY_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_LIBRARY_PACKAGE_CONTROL_EXTRA "${debian}/shlibs;${debian}/triggers")
set(CPACK_COMPONENT_LIBRARY_DESCRIPTION "camera poses from a depth camera: client library
 libposed gives a program in C the poses of a running posed.")
set(CPACK_DEBIAN_DEV_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEV_PACKAGE_DEPENDS "libposed0 (= ${PROJECT_VERSION})")
set(CPACK_COMPONENT_DEV_DESCRIPTION "camera poses from a depth camera: development files
 The header of libposed, and the message definitions for other languages.")
include(CPack)
