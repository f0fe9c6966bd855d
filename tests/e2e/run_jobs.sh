#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# When is a job done, when does it wait, whom does `spotnik run` kill and replace? Claims:
#   1. a worker that ends with 0 while the others train on leaves; the job is done when it says so, or when all have ended;
#   2. -n N waits for N before the first step and needs one afterwards; members that wait are told of, by run and by status;
#      where nobody can come who would end the wait, run ends;
#   3. kills begin with the first commit and hit members only; programs that fail before a commit are not started for ever;
#   4. torchrun's variables are there on demand only; a process that a worker started joins without a table, if it finds none.
#
#     run_jobs.sh SPOTNIK WORKER
. "$(dirname "$0")/run_lib.sh"

# said TEXT: by run itself
said() {
    grep -q -e "$1" "$dir/err" || fail "it was not said: $1"
}

# Every worker leaves its process id where the test finds it.
program='echo $$ >"$dir/pid.$SPOTNIK_WORKER"; exec "$worker"'

# 1. The second worker has nothing more to do after 30 steps of its own; the others are not sent home.
"$spotnik" run -n 3 -- sh -c '[ "$SPOTNIK_WORKER" = 1 ] && exec "$worker" -s 600 -u 1000 -q 30; exec "$worker" -s 600 -u 1000' \
    >"$dir/out" 2>"$dir/err"
status_is 0 $? "run with a worker that ends early"
[ "$(grep -c '^\[w[02]\] done 600 ' "$dir/out")" = 2 ] || fail "the others did not train to the end"
said 'w1 ended with status 0 after step [0-9]*, and the others train on: taken for a leave'
said '^spotnik: done after '
echo "an early end: the others train to the end"

# A worker that fails is no reason to end the job, and its end does not read like a success.
"$spotnik" run -n 3 -- sh -c '[ "$SPOTNIK_WORKER" = 1 ] && { "$worker" -s 600 -u 1000 -q 30; exit 3; }; exec "$worker" -s 600 -u 1000' \
    >"$dir/out" 2>"$dir/err"
status_is 0 $? "run with a worker that fails"
said '^spotnik: done, though workers failed, after .* 1 failed, 2 done; failed: w1 (exit status 3)$'
echo "a worker that fails: the last line names it"

# A job whose others are all lost after such an end is not done.
begin "$spotnik" run -n 2 -- sh -c '[ "$SPOTNIK_WORKER" = 1 ] && exec "$worker" -u 1000 -q 30; '"$program"' -u 1000'
wait_for err 'w1 ended with status 0'
kill -KILL "$(cat "$dir/pid.0")"
wait $run
status_is 75 $? "run whose last member was killed"
echo "an early end, and then a loss of the rest: 75, not done"

# Programs that just end: the job need not say that it is over, and a worker that is on its way then is sent home.
"$spotnik" run -n 1:3 -- sh -c '[ "$SPOTNIK_WORKER" = 2 ] && exec sleep 1000; exec "$worker" -q 50' >"$dir/out" 2>"$dir/err"
status_is 0 $? "run of programs that just end"
echo "programs that just end: done"

# 2. Nobody begins alone. A job that waits says so to whoever asks. A launcher (accelerate launch) has closed descriptors.
mkdir "$dir/peers"
"$spotnik" key "$dir/key" >"$dir/out" 2>&1 || fail "spotnik key"
ask="$spotnik status --peers file:$dir/peers --key-file $dir/key"
begin "$spotnik" run -n 3 --peers "file:$dir/peers" --key-file "$dir/key" -- sh -c '
    [ "$SPOTNIK_WORKER" = 2 ] && until [ -e "$dir/go" ]; do sleep 0.1; done; eval "exec $SPOTNIK_SLOTS_FD>&-"; '"$program"' -s 2000 -u 1000'
timeout 60 sh -c 'until $0 | grep -q "^2 of 3 needed are here: steps wait"; do sleep 0.2; done' "$ask" 2>/dev/null || fail "status of a job that waits"
grep -q ' commit ' "$dir/out" && fail "a step was committed with two of three"
touch "$dir/go"
# ... and one is enough afterwards.
wait_for out '^\[w2\] commit '
kill -KILL "$(cat "$dir/pid.0")" "$(cat "$dir/pid.1")"
wait $run
status_is 0 $? "run -n 3 with two killed"
grep -q '^\[w2\] done 2000 ' "$dir/out" || fail "the last of three did not finish"
echo "-n 3: three to begin, one to go on"

# A minimum that was asked for, and nobody to come.
begin "$spotnik" run -n 2:3 -- sh -c "$program -u 1000"
wait_for out '^\[w2\] commit '
kill -KILL "$(cat "$dir/pid.0")" "$(cat "$dir/pid.1")"
wait $run
status_is 75 $? "run -n 2:3 with two killed"
said '1 of 2 needed are here, and nobody can come: ending'
echo "-n 2:3, two killed, nobody replaced: said, and ended with 75"

# With a replacement on its way it waits, says so, and goes on.
begin "$spotnik" run -n 2 --respawn -- sh -c '
    [ "$SPOTNIK_WORKER" = 2 ] && until [ -e "$dir/go2" ]; do sleep 0.1; done; '"$program"' -s 3000 -u 1000'
wait_for out '^\[w1\] commit '
kill -KILL "$(cat "$dir/pid.0")"
wait_for err 'w0 lost (SIGKILL); w2 starts'
touch "$dir/go2"
wait $run
status_is 0 $? "run -n 2 --respawn with one killed"
begin "$spotnik" run -n 2:2 --respawn -- sh -c '
    [ "$SPOTNIK_WORKER" = 2 ] && until [ -e "$dir/go3" ]; do sleep 0.1; done; '"$program"' -s 3000 -u 1000'
wait_for out '^\[w1\] commit '
kill -KILL "$(cat "$dir/pid.0")"
wait_for err '1 of 2 needed are here: steps wait'
touch "$dir/go3"
wait_for err 'enough members are here: steps go on'
wait $run
status_is 0 $? "run -n 2:2 --respawn with one killed"
echo "-n 2:2 --respawn: waits, says so, goes on"

# A worker that leaves by itself is not replaced, and the other would wait for ever. Which end that is depends on whether the
# other has made one more step by then: run takes an end with the newest step for the end of the job.
"$spotnik" run -n 2:2 --respawn -- sh -c '[ "$SPOTNIK_WORKER" = 1 ] && exec "$worker" -u 1000 -q 300; exec "$worker" -u 1000' \
    >"$dir/out" 2>"$dir/err"
status=$?
if [ $status = 0 ]; then
    said 'the job is done after step [0-9]*; who waits for others to make another step leaves'
else
    status_is 75 $status "run -n 2:2 --respawn with one that left"
    said '1 of 2 needed are here, and nobody can come: ending. Start it again, with a lower minimum'
fi
echo "-n 2:2 --respawn: one that left is not replaced, said, and ended with $status"

# More than the job admits: each would wait for the others for ever.
for words in '-n 3 --max 2' '-n 2 --min 5 --max 4' '-n 257'; do
    # shellcheck disable=SC2086  # words are meant to be split
    "$spotnik" run $words -- "$worker" -s 5 >"$dir/out" 2>"$dir/err"
    status_is 1 $? "run $words"
    said 'the first step waits for .* members, and the job admits .*(--max)'
done

# 3. Programs that need a while before they join are not killed on the way, and the job is trained to its end.
"$spotnik" run -n 1:3 --respawn --kill-every 200ms --seed 3 -- sh -c 'sleep 1; exec "$worker" -s 1500 -u 1000' >"$dir/out" 2>"$dir/err"
status_is 0 $? "run with kills of programs that start slowly"
first=$(grep -n -m1 -e ' commit ' "$dir/out" | cut -d: -f1)
[ -n "$first" ] || fail "no step was committed"
grep -q 'killing w' "$dir/err" || fail "nobody was killed"
for number in $(sed -n 's/^spotnik: killing w//p' "$dir/err"); do
    # It may not have lived to tell of its first step, which the agent knows from the table. It tells that it has joined before that.
    grep -q "^\[w$number\] joined " "$dir/out" || fail "w$number was killed on its way"
done
echo "kills: $(grep -c 'killing w' "$dir/err"), members only"

# A program that fails after a few commits, each time.
timeout 60 "$spotnik" run -n 1 --respawn --max-failures 4 --output senior -- sh -c '"$worker" -u 1000 -q 5; echo the reason >&2; exit 3' \
    >"$dir/out" 2>"$dir/err"
status_is 3 $? "run of a program that fails again and again"
said 'w3 is the last of 4 in a row that ended so'
said ' 4 workers started'
# The errors of a worker that is not the senior are shown when it fails: once, where it fails again and again.
begin "$spotnik" run -n 2 --respawn --max-failures 3 --output senior -- sh -c \
    '[ "$SPOTNIK_WORKER" = 0 ] && exec "$worker" -u 1000; "$worker" -u 1000 -q 5; echo "the reason" >&2; exit 3'
wait_for err 'w3 is the last of 3 in a row'
kill -TERM $run
wait $run
status_is 3 $? "run of a program that fails again and again beside another"
[ "$(grep -c 'the reason$' "$dir/out" "$dir/err" | grep -c ":1$")" = 1 ] || fail "the error was not shown once"
# One that crashes after a few commits: with 75 an engine would start it again for ever.
timeout 60 "$spotnik" run -n 1 --respawn --max-failures 3 -- sh -c '"$worker" -u 1000 >"$dir/$$.crash" &
    until grep -q commit "$dir/$$.crash"; do sleep 0.05; done; kill -SEGV $! $$' >"$dir/out" 2>"$dir/err"
status_is 139 $? "run of a program that crashes again and again"
said 'w2 is the last of 3 in a row that ended so'
echo "a program that fails after a few commits: so many times, not for ever"

# A program that takes its time to fail.
"$spotnik" run -n 1 --respawn -- sh -c 'sleep 2.5; exit 9' >"$dir/out" 2>"$dir/err"
status_is 9 $? "run of a program that cannot start"
said '3 workers in a row ended before their first step was committed: not replacing any more'
said '^spotnik: ended after .*: 3 workers started'
# So does one that is killed by a signal of its own; and the others do not wait for it for ever.
"$spotnik" run -n 2:2 --respawn -- sh -c '[ "$SPOTNIK_SLOT" = 0 ] && exec "$worker"; kill -SEGV $$' >"$dir/out" 2>"$dir/err"
status_is 139 $? "run of a program that crashes in one place"
said '3 workers in a row ended before'
said 'nobody can come: ending'
echo "crash loops: recognised at the third try"

# A worker that does not leave in its grace is made to, and what it has started goes with it.
begin "$spotnik" run -n 1 --grace 300ms -- sh -c 'trap "" TERM; sleep 1000 & echo $! >"$dir/child"; echo ready; wait; sleep 1000'
wait_for out 'ready'
kill -TERM $run
wait $run
status_is 75 $? "run of a worker that does not leave"
said 'still there: SIGKILL'
kill -0 "$(cat "$dir/child")" 2>/dev/null && [ "$(cut -d' ' -f3 "/proc/$(cat "$dir/child")/stat")" != Z ] && fail "what the worker had started lives on"
echo "a worker that does not leave: made to, with what it has started"

# 4. No variables of torchrun's, unless they are asked for.
env -u RANK -u WORLD_SIZE -u MASTER_ADDR "$spotnik" run -q -n 1 -- sh -c 'echo "${RANK-none} ${WORLD_SIZE-none} ${MASTER_ADDR-none}"; exit 3' \
    >"$dir/out" 2>"$dir/err"
grep -q '^\[w0\] none none none$' "$dir/out" || fail "torchrun's variables came unasked: $(cat "$dir/out")"
# A worker's child that has the environment and not the descriptor, as multiprocessing makes it; or another file in its place.
for closes in '>&-' '<"$worker"'; do
    "$spotnik" run -n 1 -- sh -c 'unset SPOTNIK_SLOTS_PID; eval "exec $SPOTNIK_SLOTS_FD'"$closes"'"; exec "$worker" -s 20' >"$dir/out" 2>"$dir/err"
    status_is 0 $? "run of a worker without its table"
done
echo "environment: torchrun's on demand; a table that is not there is done without"
