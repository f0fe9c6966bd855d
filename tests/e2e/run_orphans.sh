#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Workers whose agent ends. Claims: where `spotnik run` is killed, all its workers leave in good order, also those that a shell has started;
# one that does not listen is killed after --grace; the end of a terminal (SIGHUP) is a request to leave, and under nohup it is none.
#
#     run_orphans.sh SPOTNIK WORKER
set -u
spotnik=$1
worker=$2
dir=$(mktemp -d)
trap 'kill ${run:-} 2>/dev/null; rm -rf "$dir"' EXIT
export dir worker

fail() {
    echo "FAILED: $1"
    tail -n 5 "$dir/err" "$dir"/logs/* 2>/dev/null
    exit 1
}

wait_for() {
    timeout 30 sh -c 'until $0; do sleep 0.05; done' "$1" || fail "waited for: $1"
}

begin() {
    "$@" >"$dir/out" 2>"$dir/err" &
    run=$!
}

# gone FILE: the process that wrote its number there has ended
gone() {
    timeout 30 tail --pid="$(cat "$dir/$1")" -f /dev/null || fail "$1 lives on without its agent"
}

# A worker that a shell waits for, one that has become the program, and one that listens to nothing.
begin env TMPDIR="$dir" "$spotnik" run -n 2:3 --grace 2s --log-dir "$dir/logs" -- sh -c '
    case $SPOTNIK_WORKER in
    0) sh -c '"'"'echo $$ >"$dir/pid.0"; exec "$worker" -u 1000'"'"'; : ;;
    1) echo $$ >"$dir/pid.1"; exec "$worker" -u 1000 ;;
    2) trap "" TERM; echo $$ >"$dir/pid.2"; while :; do sleep 0.1; done ;;
    esac'
wait_for "grep -q commit.*.2.0. $dir/logs/w0.log"
wait_for "test -s $dir/pid.2"
kill -KILL $run
wait $run 2>/dev/null
for number in 0 1 2; do
    gone pid.$number
done
for number in 0 1; do
    grep -q '^leaving [0-9]' "$dir/logs/w$number.log" || fail "w$number did not leave in good order"
done
echo "the agent was killed: its workers left, and the one that did not was killed"

begin "$spotnik" run -n 1 -- "$worker" -u 1000
wait_for "grep -q commit $dir/out"
kill -HUP $run
wait $run
[ $? = 75 ] || fail "SIGHUP: not 75"
grep -q 'leaving [0-9]' "$dir/out" || fail "SIGHUP: the worker did not leave"
begin nohup "$spotnik" run -n 1 -- "$worker" -u 1000 -s 2000
wait_for "grep -q commit $dir/out"
kill -HUP $run
wait $run
[ $? = 0 ] || fail "nohup: SIGHUP ended it"
echo "SIGHUP: a request to leave, but under nohup"
