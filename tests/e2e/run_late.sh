#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A worker that comes when the training is over. Claims: it makes no step, waits for nobody, says that the job is done, and its run ends
# with 0:
#   1. in a peers folder, where members end by themselves (no number of steps is given): one that starts afterwards, and one that waits
#      for others while the programs of the last members end;
#   2. with a list of hosts, where the checkpoint folder has the record;
#   3. more steps than were made, or the record removed: the job goes on. Where all were killed, or told to go, there is no record;
#   4. one that this agent sends home when the job is done is no fault: words say that it came too late, and no status is told.
#
#     run_late.sh SPOTNIK WORKER
. "$(dirname "$0")/run_lib.sh"
export SPOTNIK_STALE_MS=2000

# agent NAME COMMAND...: a host of the job, in the background
agent() {
    name=$1
    shift
    timeout 100 "$spotnik" run -n 1 --min 2 --key-file "$dir/key" "$@" >"$dir/$name.out" 2>&1 &
    runs="${runs:-} $!"
    eval "$name=$!"
}

# ends NAME STATUS
ends() {
    eval "wait \$$1"
    status=$?
    [ $status = "$2" ] || fail "$1 ended with $status, not $2"
}

said() {
    grep -q -e "$2" "$dir/$1.out" || fail "$1 did not say: $2"
}

"$spotnik" key "$dir/key" >/dev/null || fail "spotnik key"
mkdir "$dir/peers" "$dir/checkpoints"
touch "$dir/peers/fresh"
peers="--peers file:$dir/peers"

# 1. Members have left, and their programs still have something to do: a newcomer founds the job, and waits for a second one.
agent a $peers -- sh -c '"$worker" -u 1000 -q 30; until [ -e "$dir/go" ]; do sleep 0.1; done'
agent b $peers -- sh -c '"$worker" -u 1000 -q 30; until [ -e "$dir/go" ]; do sleep 0.1; done'
until_true "grep -q leaving $dir/a.out"
until_true "grep -q leaving $dir/b.out"
agent c $peers -- sh -c 'exec "$worker" -u 1000 -q 30'
until_true "test -e $dir/peers/genesis-2"
touch "$dir/go"
ends a 0
ends b 0
ends c 0
said c 'the job is done, after step [0-9]*; the workers here came too late for a step'
agent d $peers -- sh -c 'exec "$worker" -u 1000 -q 30'
ends d 0
said d 'w0 came when the job was done: nothing is left to do here'
grep -q ' commit ' "$dir/c.out" "$dir/d.out" && fail "a step was made after the end"
[ ! -e "$dir/peers/genesis-3" ] || fail "the job was founded after its end"
echo "a folder: two that come too late say that the job is done, and end with 0"

# 3. More steps than were made.
agent e $peers -- "$worker" -u 1000 -s 60
agent f $peers -- "$worker" -u 1000 -s 60
ends e 0
ends f 0
said e '\] done 60 '
rm "$dir/peers/done"
agent g $peers -- "$worker" -u 1000 -s 100000
agent h $peers -- "$worker" -u 1000 -s 100000
until_true "grep -q commit $dir/g.out"
kill -TERM $g $h
ends g 75
ends h 75
[ ! -e "$dir/peers/done" ] || fail "a job that was told to go is on record as done"
echo "more steps, or no record: it goes on"

# 4. The second worker never joins; the first one trains to the end.
timeout 100 "$spotnik" run -n 1:2 -- sh -c 'if [ "$SPOTNIK_WORKER" = 0 ]; then until [ -e "$dir/waits" ]; do sleep 0.01; done; exec "$worker" -u 1000 -s 30; fi
trap "exit 75" TERM; : >"$dir/waits"; while :; do sleep 0.01; done' >"$dir/l.out" 2>&1
[ $? = 0 ] || fail "a job whose second worker came too late did not end with 0"
said l 'w1 ended with the job: it came too late for the last step'
grep -q 'left (75)' "$dir/l.out" && fail "the late one reads like a fault"
echo "sent home: the words are those of a late one"

# 2. A list.
list="--peers 127.0.0.1:21391,127.0.0.1:21392"
export SPOTNIK_CHECKPOINT="$dir/checkpoints"
agent i $list --bind 127.0.0.1:21391 -- "$worker" -u 1000 -q 30
agent j $list --bind 127.0.0.1:21392 -- "$worker" -u 1000 -q 30
ends i 0
ends j 0
agent k $list --bind 127.0.0.1:21392 --respawn -- "$worker" -u 1000 -q 30
ends k 0
said k 'w0 came when the job was done'
grep -q ' 1 workers started' "$dir/k.out" || fail "the late one was started again"
echo "a list: the late one says that the job is done, and ends with 0"
