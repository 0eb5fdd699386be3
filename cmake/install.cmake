# SPDX-License-Identifier: Apache-2.0
# cmake --install: programs, configuration, and what a client needs (message definitions and
# posed.pc). The libraries stay inside: the daemon's interface is its sockets.
foreach(program posed posectl posed-bench posed-eval posed-synth)
  if(TARGET ${program})
    install(TARGETS ${program})
  endif()
endforeach()

configure_file(config/posed.pc.in config/posed.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/config/posed.pc DESTINATION ${CMAKE_INSTALL_DATADIR}/pkgconfig)
install(FILES proto/posed.proto proto/requests.proto
  DESTINATION ${CMAKE_INSTALL_DATADIR}/posed/proto)
install(DIRECTORY config/cameras DESTINATION ${CMAKE_INSTALL_DATADIR}/posed)
install(FILES LICENSE README.md DESTINATION ${CMAKE_INSTALL_DOCDIR})

if(POSED_DAEMON)
  install(FILES config/posed.conf DESTINATION ${CMAKE_INSTALL_SYSCONFDIR}/posed)
  cmake_path(ABSOLUTE_PATH CMAKE_INSTALL_SYSCONFDIR BASE_DIRECTORY ${CMAKE_INSTALL_PREFIX}
    OUTPUT_VARIABLE POSED_SYSCONFDIR)
  string(APPEND POSED_SYSCONFDIR /posed)
  configure_file(config/posed.service.in config/posed.service @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/config/posed.service DESTINATION lib/systemd/system)
  install(FILES config/60-posed-kinect.rules DESTINATION lib/udev/rules.d)
  install(FILES config/posed.sysusers DESTINATION lib/sysusers.d RENAME posed.conf)
endif()
