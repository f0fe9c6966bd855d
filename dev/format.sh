#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Lay out every C file as .clang-format says. `dev/format.sh --check` only tells which would change.
# Versions of clang-format differ in what they do: it must be the one that laid out the tree, from
# the environment of the Python tests (BUILD/venv), or from PATH.
set -eu
cd "$(dirname "$0")/.."

version=19
mode=-i
[ "${1:-}" = --check ] && mode="--dry-run --Werror"
for tool in "${BUILD:-build}/venv/bin/clang-format" clang-format clang-format-$version; do
    "$tool" --version 2>/dev/null | grep -q "version $version\\." && break
    tool=
done
if [ -z "$tool" ]; then
    echo "format: no clang-format $version; get it with: dev/python.sh ${BUILD:-build}/venv" >&2
    exit 77
fi
# shellcheck disable=SC2086
git ls-files '*.c' '*.h' | xargs "$tool" $mode --style=file
