#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Build, run tests and close with the line "N passed, N failed". Usage: dev/test.sh BUILD TIER, a tier of dev/tier.py; or
# dev/test.sh BUILD [arguments of meson test], for example `dev/test.sh build --suite unit`. Exit status 0 when nothing
# failed and something passed.
# SECOND_TRY=1 (continuous integration): a test of real processes that failed runs once more, alone. If it passes then,
# it is printed as flaky. Unit tests, lint and the simulator get no second try: nothing in them depends on time.
# Meson's limits on time are for a quiet machine and only end what hangs; a busy one gets four times as long.
# One test more runs at once than there are cores, since many wait for a clock, and at most eight: more would only hide
# which of them starves which. Tests of real processes have several for each core already. Those that run alone have
# priority -10: the first of them waits for all that run, so they come last.
set -eu
cd "$(dirname "$0")/.."

build=$1
shift
tier=
case ${1:-} in
quick | check | rest | nightly)
    tier=$1
    shift
    ;;
esac
if ! dev/build.sh "$build"; then
    echo "test: the build failed, so no test ran; the build counts as the failed one"
    mkdir -p "$build"
    echo "0 passed, 1 failed" | tee "$build/summary"
    exit 1
fi
dev/python.sh "$build/venv" "${tier:-check}" || : # without it the Python tests are skipped
logs=$build/meson-logs
rm -f "$logs/testlog.json" "$logs/again.json"
at_once=$(($(nproc) + 1))
[ "$at_once" -le 8 ] || at_once=8

# run_tests LOG AT_ONCE [arguments of meson test]
run_tests()
{
    log=$1
    processes=$2
    shift 2
    meson test -C "$build" --no-rebuild --logbase "$log" --num-processes "$processes" --print-errorlogs --timeout-multiplier 4 "$@"
}

status=0
# shellcheck disable=SC2046  # names of tests have no blanks
run_tests testlog "$at_once" "$@" $([ -z "$tier" ] || python3 dev/tier.py "$build" "$tier") || status=$?
if [ "${SECOND_TRY:-}" = 1 ]; then
    again=$(python3 dev/summary.py --again "$logs/testlog.json")
    # shellcheck disable=SC2086
    [ -z "$again" ] || run_tests again 1 $again || :
fi
summary=$(python3 dev/summary.py "$logs/testlog.json" "$logs/again.json")
echo
echo "$summary"
echo "$summary" | tail -n 1 >"$build/summary"
case $summary in
*" 0 failed") ;;
*) exit 1 ;;
esac
# A run that was broken off has failed, whatever it counted; so has one that ran nothing.
{ [ "$status" = 0 ] || echo "$summary" | grep -q '^flaky: '; } && ! echo "$summary" | grep -q '^0 passed'
