# SPDX-License-Identifier: Apache-2.0
# cmake --install, and cpack -G DEB (tools/make-deb): programs, configuration, manual pages, and what
# a client needs (message definitions, posed.pc, libposed). The other libraries stay inside: the
# daemon's interface is its sockets. Components are the packages: daemon, tools, library, dev.
# The unit names paths below the prefix of the installation, not of the build: cmake --install
# --prefix and cpack (whose prefix is /usr) work on any build.
if(TARGET posed)
  install(TARGETS posed COMPONENT daemon)
endif()
foreach(program posectl posed-bench posed-eval posed-synth posed-align)
  if(TARGET ${program})
    install(TARGETS ${program} COMPONENT tools)
  endif()
endforeach()

configure_file(config/posed.pc.in config/posed.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/config/posed.pc DESTINATION ${CMAKE_INSTALL_DATADIR}/pkgconfig
  COMPONENT dev)
install(FILES proto/posed.proto proto/requests.proto
  DESTINATION ${CMAKE_INSTALL_DATADIR}/posed/proto COMPONENT dev)
install(DIRECTORY config/cameras DESTINATION ${CMAKE_INSTALL_DATADIR}/posed COMPONENT daemon)
# The documents lie to each other as in the tree, so that their links hold (tests/check_install).
foreach(document README.md CHANGELOG.md CONTRIBUTING.md SECURITY.md capture/README.md
    daemon/OPERATIONS.md daemon/web/page.png gpu/README.md proto/PROTOCOL.md proto/posed.proto
    tests/README.md tools/bench/MEASURED.md tools/client/posed.h tools/plot/example.png)
  get_filename_component(folder ${document} DIRECTORY)
  install(FILES ${document} DESTINATION ${CMAKE_INSTALL_DOCDIR}/${folder} COMPONENT daemon)
endforeach()
install(DIRECTORY tools/examples DESTINATION ${CMAKE_INSTALL_DOCDIR}/tools COMPONENT daemon
  FILES_MATCHING PATTERN "*.md" PATTERN "*.py")
if(TARGET posed_client)
  install(TARGETS posed_client LIBRARY COMPONENT library NAMELINK_COMPONENT dev)
  install(FILES tools/client/posed.h TYPE INCLUDE COMPONENT dev)
endif()

# Manual pages, where scdoc is and all programs are built and run here.
find_program(POSED_SCDOC scdoc)
find_program(POSED_PYTHON NAMES python3)
if(POSED_SCDOC AND POSED_PYTHON AND POSED_TOOLS AND NOT CMAKE_CROSSCOMPILING)
  set(man ${PROJECT_BINARY_DIR}/man)
  foreach(program posed posectl posed-bench posed-eval posed-synth posed-align)
    if(TARGET ${program})
      list(APPEND programs ${program})
      if(program STREQUAL "posed")
        set(component daemon)
        install(FILES ${man}/posed.conf.5.gz DESTINATION ${CMAKE_INSTALL_MANDIR}/man5
          COMPONENT daemon)
      else()
        set(component tools)
      endif()
      install(FILES ${man}/${program}.1.gz DESTINATION ${CMAKE_INSTALL_MANDIR}/man1
        COMPONENT ${component})
    endif()
  endforeach()
  add_custom_command(OUTPUT ${man}/posed-synth.1.gz
    COMMAND ${POSED_PYTHON} ${PROJECT_SOURCE_DIR}/tools/manpages
      ${PROJECT_BINARY_DIR}/bin ${PROJECT_SOURCE_DIR}/config/posed.conf ${man}
    DEPENDS ${programs} tools/manpages config/posed.conf COMMENT "Manual pages" VERBATIM)
  add_custom_target(manpages ALL DEPENDS ${man}/posed-synth.1.gz)
else()
  message(STATUS "Manual pages: left out, no scdoc or not all programs")
endif()
foreach(program posed posectl posed-bench posed-eval posed-synth posed-align)
  if(TARGET ${program})
    set(component tools)
    if(program STREQUAL "posed")
      set(component daemon)
    endif()
    install(FILES config/completion.bash COMPONENT ${component} RENAME ${program}
      DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
  endif()
endforeach()

if(POSED_DAEMON)
  install(FILES config/60-posed-kinect.rules DESTINATION lib/udev/rules.d COMPONENT daemon)
  install(FILES config/posed.sysusers DESTINATION lib/sysusers.d RENAME posed.conf
    COMPONENT daemon)
  include(config/packages.cmake)
  # Last: it ends with what is left to do by hand.
  install(CODE "set(POSED_SYSCONFDIR \"${CMAKE_INSTALL_SYSCONFDIR}\")
    set(POSED_BINDIR \"${CMAKE_INSTALL_BINDIR}\")
    set(POSED_DOCDIR \"${CMAKE_INSTALL_DOCDIR}\")
    set(POSED_CONFIG \"${PROJECT_SOURCE_DIR}/config\")
    set(POSED_SCRATCH \"${PROJECT_BINARY_DIR}/config\")" COMPONENT daemon)
  install(SCRIPT config/install_unit.cmake COMPONENT daemon)
endif()
