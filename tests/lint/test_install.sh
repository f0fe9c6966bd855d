#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What is installed is complete: a program compiles against it by pkg-config alone, shared and static, and runs, also one with
# functions of its own that are named like some inside the library; the manual is there and the commands, if they were built, and none of a developer's.
# NAMES: the commands beside spotnik. Usage: test_install.sh BUILD SOURCE_DIR PREFIX LIBDIR NAMES COMPILER...
set -eu

build=$1
source=$2
prefix=$3
libdir=$4
names=$5
shift 5
staged=$(mktemp -d)
trap 'rm -rf "$staged"' EXIT

# With DESTDIR, meson may run as anybody and touches nothing outside.
DESTDIR=$staged meson install -C "$build" --no-rebuild --quiet

lib=$staged$prefix/$libdir
export PKG_CONFIG_PATH="$lib/pkgconfig" PKG_CONFIG_SYSROOT_DIR="$staged"
cflags=$(pkg-config --cflags spotnik)
# shellcheck disable=SC2046,SC2086
"$@" $cflags "$source/consumer.c" -o "$staged/shared" $(pkg-config --libs spotnik)
LD_LIBRARY_PATH=$lib "$staged/shared" >"$staged/said"
grep -q spotnik_leave "$staged/said"

rm "$lib"/libspotnik.so*
# shellcheck disable=SC2046,SC2086
"$@" $cflags -DNAMESAKES "$source/consumer.c" -o "$staged/static" $(pkg-config --static --libs spotnik)
"$staged/static" >"$staged/said"
grep -q spotnik_leave "$staged/said"
if nm -g --defined-only "$lib/libspotnik.a" | awk 'NF == 3 && $3 !~ /^spotnik_/ { print; found = 1 } END { exit !found }'; then
    echo "install: these names of libspotnik.a can clash with the user's"
    exit 1
fi

if [ -x "$build/cli/spotnik" ]; then
    [ "$("$staged$prefix/bin/spotnik" --version | grep -c '0\.1\.0')" = 1 ]
    for name in $names; do
        PATH=/usr/bin:/bin "$staged$prefix/bin/spotnik" "$name" --help | grep -qi "^usage: spotnik $name" || {
            echo "install: spotnik $name --help"
            exit 1
        }
    done
    for name in run report trace; do
        "$staged$prefix/bin/spotnik" "$name" --help >"$staged/said"
    done
    found=$(cd "$staged$prefix/bin" && echo spotnik*)
    # shellcheck disable=SC2086
    [ "$found" = "$(printf 'spotnik-%s\n' $names | LC_ALL=C sort | tr '\n' ' ' | sed 's/^/spotnik /; s/ $//')" ] || {
        echo "install: bin has $found"
        exit 1
    }
    ! PATH=/usr/bin:/bin "$staged$prefix/bin/spotnik" sim 2>"$staged/said"
    grep -q 'there is no command "sim"' "$staged/said"
fi
for name in spotnik spotnik-slurm spotnik-kubernetes; do
    [ -s "$staged$prefix/share/man/man1/$name.1" ]
done
