# SPDX-License-Identifier: Apache-2.0
# CMake toolchain: arm64 with Debian's cross compiler. POSED_SYSROOT is a folder with the libraries
# for arm64; tools/cross-arm64 makes one from the distribution's packages.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES POSED_SYSROOT)

set(CMAKE_FIND_ROOT_PATH ${POSED_SYSROOT})
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
set(CMAKE_SYSROOT ${POSED_SYSROOT})
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)

# pkg-config looks only there, and names its folders as they lie here.
set(ENV{PKG_CONFIG_DIR} "")
set(ENV{PKG_CONFIG_SYSROOT_DIR} ${POSED_SYSROOT})
set(ENV{PKG_CONFIG_LIBDIR}
  ${POSED_SYSROOT}/usr/lib/aarch64-linux-gnu/pkgconfig:${POSED_SYSROOT}/usr/share/pkgconfig)

set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64-static;-L;${POSED_SYSROOT})
