# Cross-compiling for 64-bit Arm from Debian (package gcc-aarch64-linux-gnu); programs run under qemu-aarch64.
# Libraries are those that Debian's multiarch puts beside the system's own (libcmocka-dev:arm64 brings libc too).
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64)
set(ENV{PKG_CONFIG_LIBDIR} /usr/lib/aarch64-linux-gnu/pkgconfig)
set(ENV{PKG_CONFIG_PATH} "")
