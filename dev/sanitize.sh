#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Build with a sanitizer and run the tests it is for: `address` (with undefined) for everything but the formal model,
# `thread` for what has threads (unit and e2e). The first finding ends a test, with status 66, which the end-to-end tests
# know. The simulation runs fewer seeds: it is slower here.
set -eu
cd "$(dirname "$0")/.."

case ${1:-} in
address)
    build=build-asan
    sanitize=address,undefined
    suites="--suite unit --suite matrix --suite sim --suite e2e --suite fuzz"
    ;;
thread)
    build=build-tsan
    sanitize=thread
    suites="--suite unit --suite matrix --suite e2e"
    ;;
*)
    echo "usage: dev/sanitize.sh address|thread" >&2
    exit 2
    ;;
esac

[ -f "$build/build.ninja" ] ||
    dev/build.sh "$build" -Db_sanitize="$sanitize" -Db_lundef=false -Doptimization=1 -Dsim_seeds=200 \
        -Dc_args=-fno-sanitize-recover=all
# Not detect_stack_use_after_return: with gcc 11 to 13 it breaks the alignment of what is aligned to 64 bytes (PR 110027).
export ASAN_OPTIONS="exitcode=66:${ASAN_OPTIONS:-}"
export UBSAN_OPTIONS="exitcode=66:print_stacktrace=1:${UBSAN_OPTIONS:-}"
# A child that forks from several threads and starts some of its own is what a test is about.
export TSAN_OPTIONS="exitcode=66:halt_on_error=1:second_deadlock_stack=1:die_after_fork=0:suppressions=$PWD/dev/thread.supp:${TSAN_OPTIONS:-}"
# shellcheck disable=SC2086
exec dev/test.sh "$build" --timeout-multiplier 15 $suites
