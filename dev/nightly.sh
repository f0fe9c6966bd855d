#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What takes hours: the tests of tier nightly, then each of the long runs below. A run that fails does not stop the
# others. Ends with a line for each and "N passed, N failed". Usage: dev/nightly.sh BUILD [RUN ...]
set -u
cd "$(dirname "$0")/.."

build=$1
shift
[ $# -gt 0 ] || set -- tests model seeds founding matrix wires mutants analysers address thread fuzz frameworks neon release workflows soak

one()
{
    case $1 in
    tests) dev/test.sh "$build" nightly ;;
    model) model/run.sh long && "$build/tests/model/worlds" long ;;
    seeds) "$build/cli/spotnik" sim --eventful --seed "$(date +%s)000" --seeds 100000 ;;
    founding) "$build/sim/founding/founding" --seed "$(date +%s)000" --seeds 5000 ;;
    matrix) dev/matrix.sh "$build" ;;
    wires) SPOTNIK_TEST_KILLS=100 tests/python/run.sh "$build" tests/python/torch/test_wires.py -s -k kills_and_joins ;;
    mutants) dev/mutants.sh "$build" ;;
    analysers) dev/analyse.py "$build" ;;
    address | thread) dev/sanitize.sh "$1" ;;
    fuzz) dev/fuzz.sh 60 ;;
    frameworks) dev/frameworks.sh "$build/frameworks" && tests/frameworks/run.sh "$build" ;;
    neon) dev/neon.sh ;;
    release) dev/release.sh "$build/dist" && dev/release.sh "$build/again" && cmp "$build/dist/SHA256SUMS" "$build/again/SHA256SUMS" &&
        dev/verify-release.sh "$build/dist" && dev/abi.sh "$build/src/libspotnik.so" ;;
    workflows) dev/workflows.sh ;;
    soak) dev/soak.sh "$build" "$build/soak" 60 ;;
    *)
        echo "nightly: there is no run called $1" >&2
        return 2
        ;;
    esac
}

dev/build.sh "$build" # many runs take its programs; dev/abi.sh its library
passed=0
failed=0
results=
for run; do
    echo "nightly: $run"
    if one "$run"; then
        passed=$((passed + 1))
        results="$results
passed: $run"
    else
        failed=$((failed + 1))
        results="$results
failed: $run"
    fi
done
echo "$results"
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
