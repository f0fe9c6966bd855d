#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Checks model/recovery.pml and model/founding.pml with Spin: the protocol in every configuration below must hold, and every
# planted bug must be found. Prints one line per configuration; exit 1 when one is not as expected, 77 when Spin is not installed.
#
#   run.sh [short|long|bugs|show NAME]    short (default, about 2 minutes) = small protocol runs and all planted bugs
#                                         long adds the large runs (half an hour, up to 4 GB); bugs runs the bugs only
#                                         show NAME runs one configuration and prints its counter-example in words
set -u
here=$(cd "$(dirname "$0")" && pwd)
what=${1:-short}
only=${2:-}
failed=0
model=recovery ends=            # ends=-E: a process may stop anywhere

command -v spin >/dev/null 2>&1 || { echo "spin is not installed (Debian: apt install spin); the model is not checked"; exit 77; }
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT INT TERM

verify()  # name, options of the model, options of gcc, options of the verifier; leaves its output in $work/out
{
    (cd "$work" && rm -f ./*.trail pan pan.* && cp "$here/$model.pml" . &&
        spin -a $2 $model.pml >spin.out 2>&1 &&
        gcc $3 -w -DSAFETY -DNOREDUCE -DMEMLIM=6000 -o pan pan.c >gcc.out 2>&1 &&
        ./pan -m200000 $ends $4 >out 2>&1) || { echo "$1: did not run"; cat "$work/spin.out" "$work/gcc.out" "$work/out" 2>/dev/null; return 1; }
}

line()  # name, result
{
    states=$(sed -n 's/^ *\([0-9.e+]*\) states, stored.*/\1/p' "$work/out")
    depth=$(sed -n 's/.*depth reached \([0-9]*\).*/\1/p' "$work/out" | tail -1)
    seconds=$(sed -n 's/^pan: elapsed time \([0-9.]*\).*/\1/p' "$work/out")
    printf '%-34s %10s states  depth %3s  %7s s  %s\n' "$1" "$states" "$depth" "${seconds:-0}" "$2"
}

story()  # options of the model
{
    (cd "$work" && spin -t $1 $model.pml) | grep -v ' = \|proc ' | grep -E '^ +([0-9]|the |link |genesis)' | sed 's/^ */  /'
    sed -n 's/^pan:1: /  broken: /p' "$work/out"
}

wanted()  # name
{
    [ "$what" != show ] || [ "$only" = "$1" ]
}

holds()  # name, options of the model: every state is visited
{
    wanted "$1" || return 0
    verify "$1" "$2" "-O2 -DCOLLAPSE" "" || { failed=1; return; }
    if grep -q 'errors: 0' "$work/out" && ! grep -q 'Search not completed\|out of memory' "$work/out"; then
        line "$1" "holds"
    else
        line "$1" "BROKEN: $(grep -m1 '^pan:1:\|not completed\|out of memory' "$work/out")"
        story "$2"
        failed=1
    fi
}

looks()  # name, options of the model: bitstate hashing for five minutes; finds errors, does not exclude them
{
    wanted "$1" || return 0
    verify "$1" "$2" "-O2 -DBITSTATE" "-w33 -Q5" || { failed=1; return; }
    if grep -q '^pan:1: assertion violated' "$work/out"; then
        line "$1" "BROKEN"
        story "$2"
        failed=1
    else
        line "$1" "no error seen (bitstate, 5 minutes at most)"
    fi
}

finds()  # name, options of the model, -O2 where the search outlasts the compiler: a planted bug
{
    wanted "$1" || return 0
    verify "$1" "$2" "${3:--O0} -DCOLLAPSE" "" || { failed=1; return; }
    if grep -q '^pan:1: assertion violated' "$work/out"; then
        line "$1" "found, as it must be"
        [ "$what" != show ] || story "$2"
    else
        line "$1" "NOT FOUND: the check is blind"
        failed=1
    fi
}

one="-DSTEPS=0 -DSINGLE -DEPOCHS=1"      # one decision only, no steps

small()
{
    holds "4 members, 2 deaths"            "-DN=4 -DCRASHES=2"
    holds "3 members, early retry, 2 deaths" "-DN=3 -DCRASHES=2 -DHASTE=1"
    holds "3 members, link breaks, 1 death" "-DN=3 -DCRASHES=1 -DDOWNS=1"
    holds "3 members, partition, 1 death"  "-DN=3 -DCRASHES=1 -DCUT=1"
    holds "3 members, 2 leave, 2 deaths"   "-DN=3 -DCRASHES=2 -DLEAVERS=6 -DEPOCHS=5"
    holds "2 members, joiner, 2 deaths"    "-DN=2 -DJOIN=1 -DCRASHES=2 -DEPOCHS=5"
    holds "5 members, 2 deaths, 1 decision" "-DN=5 -DCRASHES=2 $one"
    holds "6 members, 1 death, 1 decision" "-DN=6 -DCRASHES=1 $one"
    holds "3 members, witness, partition"  "-DN=3 -DCRASHES=1 -DCUT=4 -DWITNESS"
    holds "4 members, 2|2, 1 decision"     "-DN=4 -DCRASHES=0 -DCUT=3 $one"
    holds "4 members, witness, 2|2, 1 decision" "-DN=4 -DCRASHES=0 -DCUT=3 -DWITNESS $one"
    holds "3 members, link breaks, GOODBYE" "-DN=3 -DCRASHES=1 -DDOWNS=1 $one -DFAREWELL -DNO_END"
}

large()
{
    holds "4 members, leave, 1 death"      "-DN=4 -DCRASHES=1 -DLEAVERS=2"
    holds "6 members, 2 deaths, 1 decision" "-DN=6 -DCRASHES=2 $one"
    holds "4 members, 3 deaths"            "-DN=4 -DCRASHES=3"
    holds "4 members, early retry, 1 death" "-DN=4 -DCRASHES=1 -DHASTE=1"
    holds "3 members, link breaks, 2 deaths" "-DN=3 -DCRASHES=2 -DDOWNS=1"
    holds "3 members, partition, 2 deaths" "-DN=3 -DCRASHES=2 -DCUT=1"
    holds "3 members, smallest id elsewhere" "-DN=3 -DCRASHES=2 -DCUT=4"
    holds "3 members, joiner, 1 death"     "-DN=3 -DJOIN=1 -DCRASHES=1 -DEPOCHS=5"
    holds "4 members, link breaks, GOODBYE" "-DN=4 -DCRASHES=0 -DDOWNS=1 $one -DFAREWELL -DNO_END"
    holds "4 members, hearsay, 2 deaths"   "-DN=4 -DCRASHES=2 -DDOWNS=1 -DSECOND_HAND $one -DNO_END"
    looks "4 members, 2|2 partition"       "-DN=4 -DCRASHES=0 -DCUT=3"
    looks "4 members, 2|2, bridge, 2 deaths" "-DN=4 -DCRASHES=2 -DCUT=9 -DBRIDGE=3 $one -DNO_END"
    looks "4 members, witness, 2|2, 1 death" "-DN=4 -DCRASHES=1 -DCUT=3 -DWITNESS -DNO_END -DTOKENS=8"
    looks "5 members, 2|3 partition, 1 death" "-DN=5 -DCRASHES=1 -DCUT=3 $one -DNO_END"
    looks "5 members, 2 deaths, with steps" "-DN=5 -DCRASHES=2"
}

bugs()
{
    finds "commit after a promise"         "-DBUG_COMMIT_AFTER_PROMISE -DN=3 -DCRASHES=1"
    finds "hand-over after a promise"      "-DBUG_HANDOVER_AFTER_PROMISE -DN=3 -DCRASHES=1 -DHASTE=1"
    finds "accepted proposal ignored"      "-DBUG_IGNORE_ACCEPTED -DN=3 -DCRASHES=2 $one"
    finds "silent dead counted as gone"    "-DBUG_TAINTED_AS_GONE -DN=3 -DCRASHES=2 -DCUT=1 $one -DNO_END"
    finds "the end of a link taken for a death" "-DBUG_END_IS_GONE -DN=3 -DCRASHES=0 -DDOWNS=2 $one -DNO_END"
    finds "no FENCED"                      "-DBUG_NO_FENCE -DN=3 -DCRASHES=2 -DDOWNS=1 $one -DNO_END"
    finds "FENCED not repeated at link up" "-DBUG_FENCE_ONCE -DN=3 -DCRASHES=2 -DCUT=1 $one -DNO_END"
    finds "a later epoch at link up ignored" "-DBUG_LATE_LINK -DN=3 -DCRASHES=2 -DCUT=1 $one -DNO_END"
    finds "FENCED not to all non-voters"   "-DBUG_FENCE_LEFT_OUT -DN=3 -DCRASHES=2 -DDOWNS=2 $one -DNO_END"
    finds "any quorum will do"             "-DBUG_ANY_QUORUM -DN=3 -DCRASHES=0 -DCUT=1 $one"
    finds "ACCEPT passes over a voter"     "-DBUG_ACCEPT_SKIPS -DN=4 -DCRASHES=0 -DDOWNS=1 -DCUT=10 $one -DNO_END" -O2
    finds "laggards not served"            "-DBUG_SKIP_HANDOVER -DN=3 -DCRASHES=1"
    finds "the only holders leave"         "-DBUG_HOLDERS_LEAVE -DN=3 -DCRASHES=0 -DLEAVERS=6 -DEPOCHS=5"
    finds "joiner fed unstable steps"      "-DBUG_STREAM_UNSTABLE -DN=3 -DJOIN=1 -DCRASHES=1 -DEPOCHS=5"
    finds "incomplete joiner goes on alone" "-DBUG_JOINER_ALONE -DN=2 -DJOIN=1 -DCRASHES=2 -DEPOCHS=5"
    finds "witness copied, not moved"      "-DBUG_WITNESS_COPIED -DWITNESS -DN=4 -DCRASHES=0 -DCUT=3 $one -DNO_END"
    finds "quorum shrinks with the dead"   "-DRULE_SHRINKING -DN=4 -DCRASHES=2 -DMORTAL=5 -DCUT=9 -DBRIDGE=3 $one -DNO_END" -O2
}

two="-DN=2 -DTRIES=2 -DPAUSES=1"      # each may be stopped for longer than T

foundings()
{
    holds "founding, 3 processes"          "-DN=3 -DTRIES=2"
    holds "founding, late write"           "$two -DLATE_PUTS=1"
    holds "founding, 1 death"              "$two -DCRASHES=1"
}

foundings_large()
{
    holds "founding, 3 processes, late write" "-DN=3 -DTRIES=2 -DLATE_PUTS=1"
    holds "founding, late write, 3 tries"  "-DN=2 -DTRIES=3 -DPAUSES=1 -DLATE_PUTS=1"
    holds "founding, late write and delete" "$two -DLATE_PUTS=1 -DLATE_DELETES=1"
}

founding_bugs()
{
    finds "founding, conditions ignored"   "-DN=2 -DTRIES=2 -DBUG_UNCONDITIONAL"
    finds "founding, another's record is ours" "-DN=2 -DTRIES=2 -DBUG_ANOTHERS_IS_OURS"
    finds "founding without an answer"     "-DN=2 -DTRIES=2 -DLATE_PUTS=1 -DBUG_FOUNDS_WITHOUT_ANSWER"
    finds "founding without a second look" "$two -DBUG_NO_SECOND_LOOK"
    finds "founding, commits before a look" "$two -DBUG_NO_BAR"
    finds "founding, replaced ones block nothing" "-DN=2 -DTRIES=3 -DPAUSES=1 -DLATE_PUTS=1 -DBUG_PAST_BLOCKS_NOTHING"
}

all_foundings()
{
    model=founding ends=-E
    case $what in short|long|show) foundings ;; esac
    founding_bugs
    case $what in long|show) foundings_large ;; esac
}

case $what in
short) small; bugs; all_foundings ;;
long)  small; bugs; large; all_foundings ;;
bugs)  bugs; all_foundings ;;
show)  small; bugs; large; all_foundings ;;
*)     echo "usage: run.sh [short|long|bugs|show NAME]" >&2; exit 2 ;;
esac
exit $failed
