#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What a host may lack. Claims:
#   1. the run's folder is emptied by a cleaner: it is said, a lost member is replaced, and the job can be asked;
#   2. --bind auto on a host without a default route, whose name has an address that it has not: the address of its interface;
#   3. the quota of a control group counts for OMP_NUM_THREADS;
#   4. exec:COMMAND names no host at first: the run asks again; one that fails ends it;
#   5. too few open files for the workers: it is said, and nothing is started; a soft limit is raised.
#
#     run_host.sh SPOTNIK WORKER
. "$(dirname "$0")/run_lib.sh"
trap 'kill ${runs:-} 2>/dev/null; rmdir "${group:-$dir/none}" 2>/dev/null; rm -rf "$dir"' EXIT

# 1
mkdir "$dir/tmp"
begin env TMPDIR="$dir/tmp" "$spotnik" run -n 2 --respawn --min 1 -- sh -c 'echo $$ >"$dir/pid.$SPOTNIK_WORKER"; exec "$worker" -u 2000'
until_true "grep -q commit.*.2.0. $dir/out"
rm -rf "$dir"/tmp/spotnik-*
until_true "grep -q was.emptied $dir/err"
kill -KILL "$(cat "$dir/pid.1")"
until_true "grep -q ^.w2..commit.*.2.0. $dir/out"
asked=$(sed -n 's/^spotnik: ask with: spotnik //p' "$dir/err")
"$spotnik" $asked >"$dir/status" 2>&1 || fail "the emptied job cannot be asked: $(cat "$dir/status")"
kill -TERM $run
wait $run
[ $? = 75 ] || fail "the emptied run ended with another status than 75"
[ -z "$(ls "$dir/tmp")" ] || fail "left in TMPDIR: $(ls "$dir/tmp")"
echo "a run's folder was emptied: the lost member was replaced"

# 2
if unshare -rn true 2>/dev/null; then
    unshare -rnu sh -c 'hostname elsewhere; ip link set lo up; ip link add net0 type veth peer name net1; ip addr add 10.98.9.7/24 dev net0; ip link set net0 up; ip link set net1 up
        exec "$spotnik" run --bind auto -- sh -c "echo bind \$SPOTNIK_BIND"' >"$dir/out" 2>"$dir/err" || fail "--bind auto without a route"
    grep -q '^\[w0\] bind 10.98.9.7$' "$dir/out" || fail "--bind auto without a route"
    grep -q 'no default route: workers listen on 10.98.9.7 of net0' "$dir/err" || fail "the address is not told"
    echo "--bind auto without a default route: the address of the interface"
else
    echo "skipped: no network namespace"
fi

# 3
group=/sys/fs/cgroup/cpu/spotnik-test-$$
if [ -d /sys/fs/cgroup/cpu ] && mkdir "$group" 2>/dev/null && echo 100000 >"$group/cpu.cfs_period_us" && echo 100000 >"$group/cpu.cfs_quota_us"; then
    threads=$(sh -c 'echo $$ >"$0/tasks" && exec env -u OMP_NUM_THREADS "$spotnik" run -q -- sh -c "echo \$OMP_NUM_THREADS"' "$group")
    [ "$threads" = "[w0] 1" ] || fail "with a quota of one processor: $threads"
    echo "a quota of one processor: one thread"
else
    echo "skipped: no control group that may be changed"
fi

# 4
: >"$dir/hosts"
"$spotnik" key "$dir/key" >/dev/null
begin "$spotnik" run --peers "exec:cat $dir/hosts" --key-file "$dir/key" --bind 127.0.0.1 -- "$worker" -u 1000 -s 20
until_true "grep -q names.no.host.yet $dir/err"
echo 127.0.0.1 >"$dir/hosts"
wait $run || fail "exec: whose first answer was empty"
grep -q ' done 20 ' "$dir/out" || fail "exec: no step was made"
"$spotnik" run --peers 'exec:exit 3' --key-file "$dir/key" --bind 127.0.0.1 -- "$worker" >"$dir/out" 2>"$dir/err" && fail "exec: that fails"
grep -q 'exec:exit 3 failed' "$dir/err" || fail "exec: that fails is not told"
echo "exec: an empty first answer is waited for; a failure is told"

# 5
(ulimit -n 32 && exec "$spotnik" run -n 8 -- "$worker" -s 20) >"$dir/out" 2>"$dir/err"
[ $? = 1 ] || fail "32 open files: another status than 1"
grep -q 'a process may open 32 files here, and a job of 8 workers needs 96' "$dir/err" || fail "32 open files: not told"
(ulimit -Sn 32 && exec "$spotnik" run -n 8 -- "$worker" -s 20) >"$dir/out" 2>"$dir/err" || fail "a soft limit of 32 open files"
echo "32 open files: told; a soft limit is raised"
