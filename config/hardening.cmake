# SPDX-License-Identifier: Apache-2.0
# What the compiler and the linker do against a mistake that we did not find: in every program and
# library of ours (a recording, a mesh or a map is as hostile as a message), not in the tests.
# tests/check_hardening reads it off the programs and the compiler's commands. Left out with a
# sanitizer, which finds more and does not go with FORTIFY. Included after all targets are there.
include(CheckCCompilerFlag)
include(CheckCSourceCompiles)

# posed_targets_below(folder out): all libraries and programs of the folder and those below it.
function(posed_targets_below folder out)
  get_property(found DIRECTORY ${folder} PROPERTY BUILDSYSTEM_TARGETS)
  get_property(folders DIRECTORY ${folder} PROPERTY SUBDIRECTORIES)
  foreach(below IN LISTS folders)
    posed_targets_below(${below} more)
    list(APPEND found ${more})
  endforeach()
  set(${out} ${found} PARENT_SCOPE)
endfunction()

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

  foreach(folder proto capture gpu daemon tools)
    if((folder STREQUAL "daemon" AND NOT POSED_DAEMON) OR
        (folder STREQUAL "tools" AND NOT POSED_TOOLS))
      continue()
    endif()
    posed_targets_below(${PROJECT_SOURCE_DIR}/${folder} targets)
    foreach(target IN LISTS targets)
      get_target_property(type ${target} TYPE)
      if(type MATCHES "LIBRARY|EXECUTABLE" AND NOT type STREQUAL "INTERFACE_LIBRARY")
        target_compile_options(${target} PRIVATE "$<$<COMPILE_LANGUAGE:C>:${hardening}>")
      endif()
      if(type MATCHES "SHARED|EXECUTABLE")
        target_link_options(${target} PRIVATE LINKER:-z,relro,-z,now,-z,noexecstack)
      endif()
    endforeach()
  endforeach()
endif()
