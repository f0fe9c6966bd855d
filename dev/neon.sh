#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Run the unit tests of src/reduce and src/link as a 64-bit ARM runs them: cross-compiled, under emulation. Two are left
# out, since qemu-user has no robust futexes and no TCP_INFO: link_death and link_link. Needs aarch64-linux-gnu-gcc,
# qemu-user and apt-get (dev/sysroot.sh). Prints what the tests print; fails if one does.
#   SYSTEMS=DIR  keep the libraries there, for the next time
set -eu
cd "$(dirname "$0")/.."

out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
root=$(realpath -m "${SYSTEMS:-$out}")/aarch64
dev/sysroot.sh aarch64 "$root"
lib=$root/usr/lib/aarch64-linux-gnu
qemu=$(command -v qemu-aarch64-static || command -v qemu-aarch64)

cat >"$out/cross" <<END
[binaries]
c = 'aarch64-linux-gnu-gcc'
ar = 'aarch64-linux-gnu-ar'
objcopy = 'aarch64-linux-gnu-objcopy'
strip = 'aarch64-linux-gnu-strip'
pkgconfig = 'pkg-config'
exe_wrapper = ['$qemu', '-L', '$root']
[built-in options]
c_args = ['-idirafter', '$root/usr/include/aarch64-linux-gnu']
[properties]
sys_root = '$root'
pkg_config_libdir = '$lib/pkgconfig'
[host_machine]
system = 'linux'
cpu_family = 'aarch64'
cpu = 'aarch64'
endian = 'little'
END
meson setup --cross-file "$out/cross" -Dhttp=disabled -Dstores=disabled -Dnotices=disabled "$out/build" >"$out/log" || {
    tail "$out/log" >&2
    exit 1
}
meson test -C "$out/build" --timeout-multiplier 20 --print-errorlogs compress norm reduce reduce_kernels reduce_scalar \
    link_acceptor link_seal link_seal_scalar link_shake link_tls link_tls_bytes
