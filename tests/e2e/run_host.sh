#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What a host may lack. Claims:
#   1. TMPDIR is removed by a cleaner: it is said, a lost member is replaced, and the job can be asked by the command
#      that was printed, whatever the names in it;
#   2. --bind auto on a host without a default route, whose name has an address that it has not: the address of its interface, but not one that the host gave itself;
#   3. the quota of a control group counts for OMP_NUM_THREADS;
#   4. exec:COMMAND fails or names no host at first: the run asks again; one that cannot be run ends it;
#   5. too few open files for the workers: it is said, and nothing is started; a soft limit is raised. A worker that has too few alone ends;
#   6. a worker that the kernel kills for want of memory, again and again: it is said, and it is not started for ever.
#
#     run_host.sh SPOTNIK WORKER
. "$(dirname "$0")/run_lib.sh"
trap 'kill ${runs:-} 2>/dev/null; rmdir "${group:-$dir/none}" "${memory:-$dir/none}" 2>/dev/null; rm -rf "$dir"' EXIT

# 1
mkdir "$dir/tmp it's"
begin env TMPDIR="$dir/tmp it's" SPOTNIK_JOB="it's \$ours" "$spotnik" run -n 2 --respawn --min 1 -- sh -c 'echo $$ >"$dir/pid.$SPOTNIK_WORKER"; exec "$worker" -u 2000'
until_true "grep -q commit.*.2.0. $dir/out"
rm -rf "$dir/tmp it's"
until_true "grep -q was.emptied $dir/err"
kill -KILL "$(cat "$dir/pid.1")"
until_true "grep -q ^.w2..commit.*.2.0. $dir/out"
asked=$(sed -n 's/^spotnik: ask with: spotnik //p' "$dir/err")
SPOTNIK_JOB=another sh -c "'$spotnik' $asked" >"$dir/status" 2>&1 || fail "the emptied job cannot be asked: $(cat "$dir/status")"
kill -TERM $run
wait $run
[ $? = 75 ] || fail "the emptied run ended with another status than 75"
[ -z "$(ls "$dir/tmp it's")" ] || fail "left in TMPDIR: $(ls "$dir/tmp it's")"
echo "a run's folder was emptied: the lost member was replaced"

# 2
if unshare -rn true 2>/dev/null; then
    unshare -rnu sh -c 'hostname elsewhere; ip link set lo up; ip link add net0 type veth peer name net1; ip addr add 169.254.5.5/16 dev net0; ip addr add 10.98.9.7/24 dev net0; ip link set net0 up; ip link set net1 up
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
echo 7 >"$dir/status"
"$spotnik" key "$dir/key" >/dev/null
begin "$spotnik" run --peers "exec:[ -s $dir/hosts ] || exit \$(cat $dir/status); cat $dir/hosts" --key-file "$dir/key" --bind 127.0.0.1 -- "$worker" -u 1000 -s 20
until_true "grep -q failed.*asking.again $dir/err"
echo 0 >"$dir/status"
until_true "grep -q names.no.host.yet $dir/err"
echo 127.0.0.1 >"$dir/hosts"
wait $run || fail "exec: whose first answers were none"
grep -q ' done 20 ' "$dir/out" || fail "exec: no step was made"
"$spotnik" run --peers 'exec:/nonexistent/hosts' --key-file "$dir/key" --bind 127.0.0.1 -- "$worker" >"$dir/out" 2>"$dir/err" && fail "exec: no command"
grep -q 'exec:/nonexistent/hosts cannot be run' "$dir/err" || fail "exec: that there is no command is not told"
echo "exec: failures and empty answers are waited for; a command that is not there is told"

# 5
(ulimit -n 32 && exec "$spotnik" run -n 8 -- "$worker" -s 20) >"$dir/out" 2>"$dir/err"
[ $? = 1 ] || fail "32 open files: another status than 1"
grep -q 'a process may open 32 files here, and a job of 8 workers needs 96' "$dir/err" || fail "32 open files: not told"
(ulimit -Sn 32 && exec "$spotnik" run -n 8 -- "$worker" -s 20) >"$dir/out" 2>"$dir/err" || fail "a soft limit of 32 open files"
"$spotnik" run -n 2 -- sh -c 'ulimit -n 32; exec "$worker" -s 20' >"$dir/out" 2>"$dir/err" && fail "32 open files of a worker alone"
grep -q 'this process may open 32 files, and a member needs 68' "$dir/out" || fail "32 open files of a worker alone: not told"
echo "32 open files, of all or of a worker alone: told; a soft limit is raised"

# 6
memory=/sys/fs/cgroup/memory/spotnik-test-$$
if [ -e /sys/fs/cgroup/memory/memory.oom_control ] && mkdir "$memory" 2>/dev/null && echo 150M >"$memory/memory.limit_in_bytes"; then
    timeout 60 sh -c 'echo $$ >"$0/tasks" && exec "$spotnik" run -n 1 --respawn --max-failures 3 -- sh -c "
        \"$worker\" -u 1000 >\"$dir/\$\$.oom\" &
        until grep -q commit \"$dir/\$\$.oom\"; do sleep 0.05; done
        tail /dev/zero
        kill -KILL \$! \$\$"' "$memory" >"$dir/out" 2>"$dir/err"
    status=$?
    [ $status = 137 ] || fail "out of memory again and again: exit status $status"
    grep -q 'w0 lost (SIGKILL: out of memory); w1 starts' "$dir/err" || fail "out of memory: not told"
    grep -q 'w2 is the last of 3 in a row' "$dir/err" || fail "out of memory: no limit"
    echo "out of memory: told, and three times, not for ever"
else
    echo "skipped: no control group that may be changed"
fi
