# SPDX-License-Identifier: Apache-2.0
# What the compiler and the linker do against a mistake that we did not find, for the code that reads
# what strangers send: the daemon, the messages, the client. Every program is linked with it.
# tests/check_hardening reads it off the programs. Left out with a sanitizer, which finds more and
# does not go with FORTIFY. Included after all targets are there.
include(CheckCCompilerFlag)
include(CheckCSourceCompiles)

if(NOT CMAKE_C_FLAGS MATCHES "-fsanitize" AND NOT POSED_LIBFUZZER)
  set(hardening)
  set(branches -fcf-protection=full)
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "aarch64|arm64")
    set(branches -mbranch-protection=standard)
  endif()
  foreach(flag -fstack-protector-strong -fstack-clash-protection ${branches})
    string(MAKE_C_IDENTIFIER "POSED_HAVE${flag}" have)
    check_c_compiler_flag(${flag} ${have})
    if(${have})
      list(APPEND hardening ${flag})
    endif()
  endforeach()

  # Level 3 where compiler and C library have it. It needs an optimising build.
  if(NOT CMAKE_BUILD_TYPE STREQUAL "Debug")
    set(CMAKE_REQUIRED_FLAGS "-O2 -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3")
    check_c_source_compiles("
      #include <string.h>
      #if __USE_FORTIFY_LEVEL < 3
      #error level 3 is not there
      #endif
      int main(void) { return 0; }" POSED_HAVE_FORTIFY_3)
    unset(CMAKE_REQUIRED_FLAGS)
    list(APPEND hardening -U_FORTIFY_SOURCE
      -D_FORTIFY_SOURCE=$<IF:$<BOOL:${POSED_HAVE_FORTIFY_3}>,3,2>)
  endif()

  foreach(target posed_proto posed_wire posed_wire_json posed_daemon posed posectl)
    if(TARGET ${target})
      target_compile_options(${target} PRIVATE "$<$<COMPILE_LANGUAGE:C>:${hardening}>")
    endif()
  endforeach()
  foreach(program posed posectl posed-bench posed-eval posed-synth posed-align)
    if(TARGET ${program})
      target_link_options(${program} PRIVATE LINKER:-z,relro,-z,now,-z,noexecstack)
    endif()
  endforeach()
endif()
