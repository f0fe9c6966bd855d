#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Configure (once) and compile into the folder named first; further arguments go to meson. MESON_OPTIONS too.
# Quiet when all goes well, everything when not.
set -eu
cd "$(dirname "$0")/.."

build=$1
shift
log=$(mktemp)
trap 'rm -f "$log"' EXIT

# shellcheck disable=SC2086  # options are meant to be split
configure()
{
    if [ -f "$build/build.ninja" ]; then
        [ -z "${MESON_OPTIONS:-}$*" ] || meson configure "$build" "$@" ${MESON_OPTIONS:-}
    else
        echo "build: configuring and compiling in $build"
        meson setup "$build" "$@" ${MESON_OPTIONS:-}
    fi
}

if ! configure "$@" >"$log" 2>&1; then
    cat "$log" >&2
    echo "build: meson could not configure $build; see above" >&2
    exit 1
fi
grep '^build:' "$log" || :

# On a terminal ninja shows its progress in one line; elsewhere only what compilers have to say.
if [ -t 1 ]; then
    exec ninja -C "$build"
fi
status=0
ninja -C "$build" --quiet >"$log" 2>&1 || status=$?
if [ "$status" != 0 ]; then
    cat "$log" >&2
    echo "build: compiling in $build failed; see above" >&2
elif grep -q 'warning:' "$log"; then
    cat "$log"
fi
exit "$status"
