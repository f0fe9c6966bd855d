#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Lay out every C file as .clang-format says. `dev/format.sh --check` only tells which would change.
set -eu
cd "$(dirname "$0")/.."

mode=-i
[ "${1:-}" = --check ] && mode="--dry-run --Werror"
# shellcheck disable=SC2086
git ls-files '*.c' '*.h' | xargs clang-format $mode --style=file
