#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Run the tests of src/reduce as a 64-bit ARM runs them: cross-compiled, under emulation. Needs
# aarch64-linux-gnu-gcc, qemu-aarch64 and cmocka for arm64, by default where Debian's multiarch puts it:
#   apt-get install gcc-aarch64-linux-gnu qemu-user && dpkg --add-architecture arm64 && apt-get update &&
#   apt-get install libcmocka-dev:arm64
# ROOT=DIR takes cmocka from DIR/usr instead. Prints what the tests print; fails if one does.
set -eu
cd "$(dirname "$0")/.."

root=${ROOT:-}
cc=aarch64-linux-gnu-gcc
lib=$root/usr/lib/aarch64-linux-gnu
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

cflags="-std=gnu11 -g -Wall -Wextra -Werror -Wno-psabi -ffp-contract=off -D_GNU_SOURCE= -Iinclude -Isrc -Itests/unit -Itests/unit/reduce"
for tier in scalar neon; do
    # shellcheck disable=SC2086
    $cc $cflags -O3 -fno-trapping-math -fno-math-errno -DSPOTNIK_REDUCE_TABLE=spotnik_reduce_kernels_$tier \
        -DSPOTNIK_REDUCE_LANES="\"reduce/lanes_$tier.h\"" -c src/reduce/kernels.c -o "$out/$tier.o"
done
for test in compress norm reduce reduce_kernels; do
    # shellcheck disable=SC2086
    $cc $cflags -O2 -DSPOTNIK_REDUCE_NEON ${root:+-idirafter "$root/usr/include"} tests/unit/reduce/test_$test.c \
        tests/unit/tests.c tests/unit/main.c tests/unit/reduce/oracle.c src/reduce/compress.c src/reduce/reduce.c src/reduce/tier.c src/base/assert.c \
        src/base/prng.c "$out/scalar.o" "$out/neon.o" -L"$lib" -lcmocka -lm -o "$out/$test"
    qemu-aarch64 -L /usr/aarch64-linux-gnu -E LD_LIBRARY_PATH="$lib:/usr/aarch64-linux-gnu/lib" "$out/$test"
done
