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

# Never over somebody's settings.
set(conf "${POSED_SYSCONFDIR}/posed")
set(name posed.conf)
if(EXISTS "$ENV{DESTDIR}${conf}/posed.conf")
  file(SHA256 "$ENV{DESTDIR}${conf}/posed.conf" present)
  file(SHA256 "${POSED_CONFIG}/posed.conf" new)
  if(NOT present STREQUAL new)
    set(name posed.conf.new)
    message(STATUS "${conf}/posed.conf stays as it is; this version's: ${conf}/posed.conf.new")
  endif()
endif()
file(INSTALL "${POSED_CONFIG}/posed.conf" DESTINATION "${conf}" RENAME ${name})
file(INSTALL "${POSED_SCRATCH}/posed.service"
  DESTINATION "${CMAKE_INSTALL_PREFIX}/lib/systemd/system")

# Not where files are only collected for a package. Below /usr and /usr/local systemd and udev find
# what is theirs.
if("$ENV{DESTDIR}" STREQUAL "")
  set(lib "${CMAKE_INSTALL_PREFIX}/lib")
  set(unit posed)
  set(rules "")
  if(NOT CMAKE_INSTALL_PREFIX MATCHES "^/usr(/local)?$")
    set(unit "${lib}/systemd/system/posed.service")
    set(rules "   cp ${lib}/udev/rules.d/60-posed-kinect.rules /etc/udev/rules.d\n")
  endif()
  message(STATUS "To run it as a service, as root:\n"
    "   systemd-sysusers ${lib}/sysusers.d/posed.conf    # its user, and the groups it needs\n"
    "${rules}   udevadm control --reload\n"
    "   editor ${POSED_SYSCONFDIR}/posed/posed.conf\n"
    "   systemctl daemon-reload && systemctl enable --now ${unit}")
endif()
