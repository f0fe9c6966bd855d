#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What `spotnik run` tells without a terminal, one line each with its message id. Claims:
#   1. members lost on another host, members that come, a wait for the minimum and its end: on the host that stays;
#   2. members of one host tell of one event once; -q tells nothing; --json gives id, name, level and date;
#   3. a checkpoint that cannot be written; a job that completed none says so last, and ends with 74; one that wrote one ends with 0,
#      and so does one that was not asked for any. Checkpoints, name and trace are options.
#
#     run_told.sh SPOTNIK WORKER
. "$(dirname "$0")/run_lib.sh"
export SPOTNIK_STALE_MS=2000

# agent NAME OPTION...: a host of the job, in the background
agent() {
    name=$1
    shift
    "$spotnik" run --peers "file:$dir/peers" --key-file "$dir/key" --min 3 --grace 2s "$@" -- "$worker" -u 1000 >"$dir/$name.out" 2>"$dir/$name.err" &
    runs="${runs:-} $!"
    eval "$name=$!"
}

# tells NAME PATTERN: waits for the line
tells() {
    timeout 60 sh -c 'tail -n +1 -F "$0" 2>/dev/null | grep -q -m1 -e "$1"' "$dir/$1.err" "$2" || fail "$1 does not tell: $2"
}

"$spotnik" key "$dir/key" >/dev/null || fail "spotnik key"
mkdir "$dir/peers"
touch "$dir/peers/fresh"
agent stays -n 2
timeout 60 sh -c 'until [ -e "$dir/peers/genesis-1" ]; do sleep 0.1; done' || fail "the job is not founded"
agent goes -n 1
agent silent -q -n 1
timeout 60 sh -c 'until grep -q " commit [0-9]* [0-9a-f]* [0-9]* 4 " "$dir/stays.out"; do sleep 0.1; done' || fail "the four are never together"
tells stays '^spotnik: S110: [0-9] members* joined .*; the view has 4$'
kill -KILL $(pgrep -P $goes)
tells stays '^spotnik: S112: lost 1 member .*the view has 3$'
kill -KILL $(pgrep -P $silent)
tells stays '^spotnik: S125: 2 of 3 needed are here: steps wait$'
agent again --json -n 1
tells stays '^spotnik: S126: enough members are here: steps go on$'
tells stays '^spotnik: S110: 1 member joined .*; the view has 3$'
kill -TERM $stays
tells again '"t":[0-9.]*,"text":"2* *[12] members* left in good order.*"id":"S111","event":"left","level":"info"'
kill -TERM $again
wait $stays
[ $? = 75 ] || fail "the one that stays ends with another status than 75"
[ ! -s "$dir/silent.err" ] || fail "-q: $(cat "$dir/silent.err")"
twice=$(grep -o '^spotnik: S1[01][0-9]: .*' "$dir/stays.err" | sort | uniq -d)
[ -z "$twice" ] || fail "told twice: $twice"
echo "losses, newcomers, the wait for the minimum and its end are told"

# alone STATUS NAME STEPS OPTION...: a job of two that makes so many steps; where small=yes no file may have more than 16 KiB
alone() {
    want=$1 name=$2 steps=$3
    shift 3
    (
        [ "${small:-no}" = no ] || { trap '' XFSZ && ulimit -f 32; }
        exec timeout 100 "$spotnik" run -n 2 "$@" -- "$worker" -u 1000 -s "$steps" -c 20000 >"$dir/$name.out" 2>"$dir/$name.err"
    )
    status=$?
    [ $status = "$want" ] || fail "$name ended with $status, not $want"
}

export SPOTNIK_CHECKPOINT_STEPS=10
alone 0 unasked 40
grep -q 'S15[12]' "$dir/unasked.err" && fail "a job without checkpoints tells of them"
alone 0 good 40 --checkpoint "$dir/good" --name given --trace "$dir/traces"
ls "$dir"/good/step-*/manifest.json "$dir"/traces/*.trace >"$dir/files" || fail "--checkpoint, --trace: no files"
grep -q 'ask with: .* --job given$' "$dir/good.err" || fail "--name is not the job's name"
grep -q 'S152' "$dir/good.err" && fail "a job that has its checkpoints lacks them"
small=yes SPOTNIK_CHECKPOINT="$dir/full" alone 74 full 40
grep -q '^spotnik: S151: the checkpoint after step [0-9]* was not completed: .*File too large' "$dir/full.err" || fail "why no checkpoint is complete is not told"
tail -n 1 "$dir/full.err" | grep -q '^spotnik: S152: the job was asked for checkpoints and completed none' || fail "the last line is another"
# A folder with a complete one.
cp -r "$dir/good" "$dir/once"
SPOTNIK_CHECKPOINT="$dir/once" SPOTNIK_JOB=given alone 0 once 80
grep -q '^spotnik: S102: the job goes on from the checkpoint after step 40$' "$dir/once.err" || fail "where the job goes on is not told"
alone 0 objects 40 --json
grep -v '^{"kind":"\(run\|status\)",.*}$' "$dir/objects.err" && fail "--json: a line is no object"
grep -q '"t":[0-9.]*,"text":"ask with: ' "$dir/objects.err" || fail "--json: the first line is lacking"
echo "checkpoints that fail are told; a job without any ends with 74"
