#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Inside a bare system, from dev/verify-release.sh: the wheel installs without a compiler, names what is linked in,
# trains through kills, resumes after the loss of all members, and shows the demo. In an emulator (EMULATED) two members train,
# and none is killed: it has no robust futexes, by which members of one host see a death.
set -eu
cd /root

! command -v cc gcc clang || {
    echo "verify: this system has a compiler, so it proves nothing" >&2
    exit 1
}
python3 -m venv venv
PATH=/root/venv/bin:$PATH
pip install -q --no-index --no-deps --disable-pip-version-check /spotnik-*.whl

version=$(python -c 'import spotnik; print(spotnik.__version__)')
[ "$(spotnik --version)" = "spotnik $version" ]

echo "verify: SBOM"
python /sbom.py

echo "verify: commands"
for command in $(spotnik --help | sed -n '/^First steps/q; s/^  \([a-z]*\)  .*/\1/p') slurm kubernetes notice; do
    spotnik "$command" --help >out 2>&1 || {
        cat out
        exit 1
    }
done

if [ -n "${EMULATED:-}" ]; then
    echo "verify: two members"
    spotnik run -n 2 -- python /train.py 200 >out 2>&1 || {
        tail out
        exit 1
    }
    grep -m 1 "200 steps counted" out
    exit
fi

echo "verify: kills"
SPOTNIK_TRACE=/root/traces spotnik run -n 2:3 --respawn --kill-every 200ms -- python /train.py 3000 >out 2>&1 || {
    tail out
    exit 1
}
grep -m 1 "3000 steps counted" out
grep -o '[1-9][0-9]* killed by us' out
spotnik trace merge traces -o trace.json >out
tail -n 1 out

echo "verify: resume"
export SPOTNIK_CHECKPOINT=/root/checkpoints SPOTNIK_CHECKPOINT_STEPS=100 SPOTNIK_JOB=resumes
python /train.py 100000000 kill >out || :
steps=$(($(cat out) + 200))
spotnik run -q -n 2 -- python /train.py "$steps" | tee out
grep -q "$steps steps counted" out
if grep "was 1$" out; then
    exit 1
fi
spotnik report
grep -q '<svg' spotnik-report.html
unset SPOTNIK_CHECKPOINT SPOTNIK_CHECKPOINT_STEPS SPOTNIK_JOB

if [ -n "$(ls -A /wheels)" ] && pip install -q --no-index --find-links /wheels --disable-pip-version-check "$(echo /spotnik-*.whl)[torch]"; then
    echo "verify: PyTorch"
    spotnik run -n 2:3 --respawn --kill-every 3s -- python /minimal.py >out 2>&1 || {
        tail out
        exit 1
    }
    grep "epoch 19" out
    grep -o '[1-9][0-9]* killed by us' out
fi

echo "verify: demo"
DEMO_SECONDS=8 DEMO_KILL_EVERY=3s NO_COLOR=1 python -m spotnik.demo >out 2>&1 || {
    tail -n 30 out
    exit 1
}
tail -n 20 out
grep -q '<svg' spotnik-demo.html
