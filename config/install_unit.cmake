# SPDX-License-Identifier: Apache-2.0
# Installs posed.conf and posed.service; run by cmake --install and cpack, when the prefix is known.
# In: POSED_SYSCONFDIR, _BINDIR, _DOCDIR (below the prefix, or absolute), POSED_CONFIG (sources),
# POSED_SCRATCH (of the build). Below /usr the configuration is in /etc, as GNU's rules have it.
if(CMAKE_INSTALL_PREFIX STREQUAL "/usr" AND POSED_SYSCONFDIR STREQUAL "etc")
  set(POSED_SYSCONFDIR /etc)
endif()
foreach(folder SYSCONFDIR BINDIR DOCDIR)
  cmake_path(ABSOLUTE_PATH POSED_${folder} BASE_DIRECTORY "${CMAKE_INSTALL_PREFIX}")
endforeach()
configure_file("${POSED_CONFIG}/posed.service.in" "${POSED_SCRATCH}/posed.service" @ONLY)
file(INSTALL "${POSED_CONFIG}/posed.conf" DESTINATION "${POSED_SYSCONFDIR}/posed")
file(INSTALL "${POSED_SCRATCH}/posed.service"
  DESTINATION "${CMAKE_INSTALL_PREFIX}/lib/systemd/system")
