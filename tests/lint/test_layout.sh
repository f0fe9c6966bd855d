#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Every C file is laid out as .clang-format says, and a file that is not is refused.
# Usage: test_layout.sh SOURCE_ROOT BUILD. Exit status 77 without the one version of clang-format.
set -eu

BUILD=$(cd "$2" && pwd)
export BUILD
cd "$1"
status=0
dev/format.sh --check || status=$?
[ "$status" -ne 77 ] || exit 77
[ "$status" -eq 0 ] || { echo "layout: run 'make format'"; exit 1; }

planted=$(mktemp -d)
trap 'rm -rf "$planted"' EXIT
mkdir "$planted/dev"
cp .clang-format "$planted"
cp dev/format.sh "$planted/dev"
printf 'int  f( void ){ return 0; }\n' >"$planted/a.c"
git -C "$planted" init -q
git -C "$planted" add a.c
if "$planted/dev/format.sh" --check 2>"$planted/said"; then
    echo "layout: a file in another layout was not refused"
    exit 1
fi
grep -q 'a\.c:1:.*should be clang-formatted' "$planted/said"
