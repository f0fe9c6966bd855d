#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Compare the ABI of a library with that of the newest tag before HEAD, which is compiled for it, or of BASE. It fails where a
# program compiled against the old one could break with the new one; a function more is no such change.
# Usage: dev/abi.sh LIBRARY [BASE]
set -eu

library=$(realpath "$1")
base=${2:-}
[ -z "$base" ] || base=$(realpath "$base")
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

if [ -z "$base" ]; then
    tag=$(git describe --tags --abbrev=0 --match 'v*' HEAD^ 2>/dev/null) || {
        echo "abi: no tag stands before this commit; nothing has been promised yet"
        exit 0
    }
    mkdir "$work/source"
    git archive "$tag" | tar x -C "$work/source"
    { meson setup -Dtests=false "$work/build" "$work/source" && meson compile -C "$work/build" spotnik:shared_library; } >"$work/log" || {
        tail "$work/log" >&2
        exit 1
    }
    base=$work/build/src/libspotnik.so
fi
# abidiff's bit 4 alone: a change that no program need see.
abidiff --headers-dir2 include "$base" "$library" || [ $? -eq 4 ] || {
    echo "abi: $library breaks programs compiled against $base; see above" >&2
    exit 1
}
