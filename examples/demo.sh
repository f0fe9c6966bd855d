#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Watch a model train while its workers are killed and replaced: `make demo`, or `python -m spotnik.demo`.
# Usage: demo.sh PROGRAMS SPOTNIK: the folder with charlm and demo_report, and the command.
# Nothing is fetched. Only the report is written outside a temporary folder. Takes about a minute and a half.
#   DEMO_SECONDS=N     length of the run with revocations, and of the undisturbed one (default 35)
#   DEMO_KILL_EVERY=T  time between two of them (default 3s)
#   DEMO_KEEP=1        keep the folder with the logs
#   DEMO_REPORT=STEM   where the report of the run with revocations goes (default demo-report)
#   DEMO_TEXT=FILE     what the model learns (default: what charlm finds on the machine)
# Exit status: 0 when every promise in the table was kept.
set -eu
export LC_ALL=C # the model may write any byte

programs=$1
spotnik=$2
seconds=${DEMO_SECONDS:-35}
kill_every=${DEMO_KILL_EVERY:-3s}
workers=4
report=$programs/demo_report
charlm=$programs/charlm

for program in "$report" "$charlm" "$spotnik"; do
    if [ ! -x "$program" ]; then
        echo "demo: $program is missing; run \`make\` first" >&2
        exit 1
    fi
done

dir=$(mktemp -d "${TMPDIR:-/tmp}/spotnik-demo.XXXXXX")
tidy()
{
    if [ -n "${DEMO_KEEP:-}" ]; then
        echo "demo: the logs are in $dir"
    else
        rm -rf "$dir"
    fi
}
trap tidy EXIT
trap 'exit 130' INT TERM

# job NAME STEPS [OPTION OF SPOTNIK RUN]...: train with four workers, and show it
job()
{
    name=$1
    steps=$2
    shift 2
    : >"$dir/$name.log"
    if ! "$report" follow "$dir/$name.log" "$steps" "$dir/$name.out" \
        "$spotnik" run "$@" -- "$charlm" ${DEMO_TEXT:+--text "$DEMO_TEXT"} --quiet --steps "$steps" --write 400 --log "$dir/$name.log"; then
        echo "demo: the job ended with an error; its last words were:" >&2
        tail -n 20 "$dir/$name.out" >&2
        exit 1
    fi
}

# A job of one says whether this build can serve pages here; then the workers do, from this port on.
http=
if SPOTNIK_HTTP=0 "$charlm" --quiet --steps 1 >/dev/null 2>&1; then
    http="--http 9640"
    echo "While workers are killed, look at http://localhost:9640/ (or the next port, where that one is taken)."
fi

echo "How fast is this machine? A short trial with $workers workers:"
job trial 200 -n $workers:$workers
steps=$("$report" plan "$dir/trial.log" "$seconds")

echo
echo "$workers workers train a character model for $steps steps."
echo "Every $kill_every one is killed with SIGKILL, and a new one joins:"
export SPOTNIK_EVENTS="$dir/events"
# shellcheck disable=SC2086  # two words, or none
job churn "$steps" -n 1:$workers --respawn --kill-every "$kill_every" $http
unset SPOTNIK_EVENTS

echo
echo "The same samples again, undisturbed:"
job calm "$steps" -n $workers:$workers

# What the worker that was done first wrote, without the tag that spotnik run puts before each line.
echo
echo "What the model has learnt of its text, after all that:"
tag=$(sed -n 's/^\(\[w[0-9]*\]\).*/\1/p' "$dir/churn.out" | head -n 1)
grep -aF "$tag" "$dir/churn.out" | cut -c "$((${#tag} + 2))-" | tr -cd '[:print:]\n' |
    head -n 10 | sed 's/^/    /'

echo
"$report" table "$dir/churn.log" "$dir/calm.log" "$steps"
echo
told=${DEMO_REPORT:-demo-report}
if "$spotnik" report "$dir/events" -o "$told" --title "The demo's run with revocations" >/dev/null 2>"$dir/report.err"; then
    echo "What the job did, lost and took: $told.html"
else
    sed 's/^/no report: /' "$dir/report.err"
fi
echo "Every promise was kept: no step lost, none repeated, every replica the same bits, every sample once."
