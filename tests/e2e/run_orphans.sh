#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Workers whose agent ends. Claims: where `spotnik run` is killed, all its workers leave in good order, also those that a shell has started;
# one that does not listen is killed after --grace; the end of a terminal (SIGHUP) is a request to leave, and under nohup it is none. A job that
# begins in the checkpoint folder of a living one is refused with both names; one that begins while its workers leave goes on behind them.
#
#     run_orphans.sh SPOTNIK WORKER
. "$(dirname "$0")/run_lib.sh"

# gone FILE: the process that wrote its number there has ended
gone() {
    timeout 30 tail --pid="$(cat "$dir/$1")" -f /dev/null || fail "$1 lives on without its agent"
}

# A worker that a shell waits for, one that has become the program, one that listens to nothing, and one in a session of its own.
begin env TMPDIR="$dir" "$spotnik" run -n 3:4 --grace 2s --log-dir "$dir/logs" -- sh -c '
    case $SPOTNIK_WORKER in
    0) sh -c '"'"'echo $$ >"$dir/pid.0"; exec "$worker" -u 1000'"'"'; : ;;
    1) echo $$ >"$dir/pid.1"; exec "$worker" -u 1000 ;;
    2) trap "" TERM; echo $$ >"$dir/pid.2"; while :; do sleep 0.1; done ;;
    3) setsid sh -c '"'"'echo $$ >"$dir/pid.3"; exec "$worker" -u 1000'"'"' & wait ;;
    esac'
until_true "grep -q commit.*.3.0. $dir/logs/w0.log"
until_true "test -s $dir/pid.2"
kill -KILL $run
wait $run 2>/dev/null
for number in 0 1 2 3; do
    gone pid.$number
done
for number in 0 1 3; do
    grep -q '^leaving [0-9]' "$dir/logs/w$number.log" || fail "w$number did not leave in good order"
done
echo "the agent was killed: its workers left, and the one that did not was killed"

# The same folder of checkpoints: the next start waits for them, and goes on behind them; beside a living job none begins.
export SPOTNIK_CHECKPOINT="$dir/checkpoints" SPOTNIK_CHECKPOINT_S=1
begin env TMPDIR="$dir" SPOTNIK_JOB=one "$spotnik" run -n 1 --log-dir "$dir/first" -- "$worker" -u 100000
until_true "grep -q commit.3 $dir/first/w0.log"
SPOTNIK_JOB=two "$spotnik" run -n 1 -- "$worker" -u 1000 -s 10 >"$dir/second" 2>&1 && fail "a second job began in the folder of a living one"
grep -q 'a living job writes to the checkpoint directory .*: one, founded as .*; this one is two, founded as' "$dir/second" || fail "$(cat "$dir/second")"
kill -KILL $run
wait $run 2>/dev/null
begin env SPOTNIK_JOB=one "$spotnik" run -n 1 -- "$worker" -u 1000 -s 1000
wait $run
[ $? = 0 ] || fail "the next start did not go on: $(tail -n 3 "$dir/out" "$dir/err")"
grep -q 'ask with: .* --job one$' "$dir/err" || fail "the command to ask with does not name the job"
grep -q 'S102: the job goes on from the checkpoint after step [0-9]' "$dir/err" || fail "it was not said where the job goes on"
last=$(sed -n 's/^leaving \([0-9]*\) .*/\1/p' "$dir/first/w0.log")
first=$(sed -n 's/^\[w0\] commit \([0-9]*\) .*/\1/p' "$dir/out" | head -n 1)
[ "$first" = $((last + 1)) ] || fail "the first left after step $last, and the next began with $first"
unset SPOTNIK_CHECKPOINT
echo "a folder of checkpoints: refused while a job lives, and taken on at step $first when it has left"

begin env --default-signal=HUP "$spotnik" run -n 1 -- "$worker" -u 1000 # or one under nohup ignores it
until_true "grep -q commit $dir/out"
kill -HUP $run
wait $run
[ $? = 75 ] || fail "SIGHUP: not 75"
grep -q 'leaving [0-9]' "$dir/out" || fail "SIGHUP: the worker did not leave"
begin nohup "$spotnik" run -n 1 -- "$worker" -u 1000 -s 2000
until_true "grep -q commit $dir/out"
kill -HUP $run
wait $run
[ $? = 0 ] || fail "nohup: SIGHUP ended it"
echo "SIGHUP: a request to leave, but under nohup"
