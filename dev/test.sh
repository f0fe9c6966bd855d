#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Build, run the tests and close with the line "N passed, N failed". Usage: dev/test.sh BUILD [meson test arguments],
# for example `dev/test.sh build --suite unit`. Exit status 0 when nothing failed and something passed.
# Meson's limits on time are for a quiet machine and only end what hangs; a busy one gets four times as long.
# One test more runs at once than there are cores, since many wait for a clock, and at most eight: more would only hide
# which of them starves which. Tests of real processes have several for each core already. Those that run alone have
# priority -10: the first of them waits for all that run, so they come last.
set -eu
cd "$(dirname "$0")/.."

build=$1
shift
if ! dev/build.sh "$build"; then
    echo "test: the build failed, so no test ran; the build counts as the failed one"
    mkdir -p "$build"
    echo "0 passed, 1 failed" | tee "$build/summary"
    exit 1
fi
case " $* " in
*" --suite "*) case " $* " in *" python "*) dev/python.sh "$build/venv" || : ;; esac ;;
*) dev/python.sh "$build/venv" || : ;; # without it the Python tests are skipped
esac
log=$build/meson-logs/testlog.json
rm -f "$log"
at_once=$(($(nproc) + 1))
[ "$at_once" -le 8 ] || at_once=8
status=0
meson test -C "$build" --no-rebuild --num-processes "$at_once" --print-errorlogs --timeout-multiplier 4 "$@" || status=$?
summary=$(python3 dev/summary.py "$log")
echo
echo "$summary"
echo "$summary" | tail -n 1 >"$build/summary"
case $summary in
*" 0 failed") [ "$status" = 0 ] && ! echo "$summary" | grep -q '^0 passed' ;;
*) exit 1 ;;
esac
