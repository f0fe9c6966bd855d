#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What notices, engines, the doctor and the fleet do, on this machine: each check by itself, with what it says. docs/results/operators.md has one
# run of it.
#
#     bench/operators.sh [BUILD]
set -eu
build=$(cd "${1:-build}" && pwd)
cd "$(dirname "$0")/.."
spotnik=$build/cli/spotnik worker=$build/tests/e2e/e2e-worker failed=0

# check TITLE COMMAND...
check() {
    echo "## $1"
    shift
    status=0
    "$@" || status=$?
    [ "$status" = 0 ] || [ "$status" = 77 ] || failed=1
    echo
}

check "a thousand notices" python3 tests/notice/thousand.py "$spotnik" "$worker" 1000
check "the clouds" python3 tests/notice/watch.py "$spotnik"
check "the start of the watcher" python3 tests/notice/start.py "$spotnik" "$build/tests/notice/prompt.so"
check "moto" tests/fleet/mocks.sh "$build" moto.server tests/notice/second_opinion.py "$spotnik"
check "one machine" python3 tests/notice/job.py "$spotnik" "$worker"
check "systemd" python3 tests/notice/systemd.py "$spotnik" "$worker" docs/guide/notices.md
check "all machines at once" "$build/tests/e2e/e2e-farewell" "$worker"
check "Slurm: an array" python3 tests/slurm/elements.py "$spotnik" "$worker"
check "Slurm: an allocation" python3 tests/slurm/allocation.py "$spotnik" "$worker"
check "Slurm: the page" python3 tests/slurm/page.py "$spotnik" "$worker"
check "Slurm: the time limit" python3 tests/slurm/page.py "$spotnik" "$worker" limit
check "Slurm: steps" python3 tests/slurm/steps.py "$spotnik" "$worker"
check "Slurm: a fleet" python3 tests/slurm/fleet.py "$spotnik" "$worker"
check "Slurm: a plan and a trace" python3 tests/slurm/plan.py "$build"
check "Kubernetes: pods" python3 tests/kubernetes/pods.py "$spotnik" "$worker" "$build/tests/bag/bag-sim" examples/kubernetes
check "the lines of the pages" python3 tests/engines/lines.py "$build" docs/guide
check "the failure pages" python3 tests/engines/failures.py "$build" docs/guide
check "Slurm: a bag" python3 tests/slurm/bag.py "$spotnik" "$build/tests/bag/bag-sim"
check "Kubernetes: schemas" sh tests/kubernetes/schemas.sh "$build" tests/kubernetes/schemas.py examples/kubernetes
for starter in pages ssh torchrun mpirun; do
    check "$starter" python3 tests/engines/starters.py "$starter" "$build" docs/guide/engines.md
done
check "Ray" sh tests/ray/run.sh "$build" docs/guide/ray.md
check "SkyPilot" sh tests/kubernetes/schemas.sh "$build" tests/kubernetes/skypilot.py examples/skypilot "$spotnik" "$worker"
check "the doctor" python3 tests/doctor/hosts.py "$spotnik" "$build/tests/doctor/wrong_clock.so"
check "the fleet's engines" python3 tests/fleet/fakes.py "$spotnik"
check "the fleet and a Kubernetes API" tests/fleet/mocks.sh "$build" kmock tests/fleet/api.py "$spotnik" \
    examples/kubernetes/indexed-job.yaml docs/guide/kubernetes.md
exit $failed
