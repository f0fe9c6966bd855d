#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The command line with real workers. Claims: `spotnik run` replaces what is lost and ends with 0 when the job is done; SIGTERM
# makes all leave, and it ends with 75; a worker's failure is its own; `spotnik status` asks a live job; wrong command
# lines and traces are refused with a word on what is wrong.
#
#     run.sh SPOTNIK WORKER
. "$(dirname "$0")/run_lib.sh"

# 1. Kills and respawns; every worker that ends in good order ends with the same replica. Where the machine is so slow that kills come faster than
# newcomers, all are lost now and then: with checkpoints the job gets on all the same.
SPOTNIK_CHECKPOINT="$dir/kept" SPOTNIK_CHECKPOINT_STEPS=20 \
    "$spotnik" run -n 2:3 --respawn --kill-every 1200ms --seed 1 -- "$worker" -s 800 -u 2000 >"$dir/out" 2>"$dir/err"
status_is 0 $? "run with kills"
grep -q 'lost (SIGKILL)' "$dir/err" || grep -q 'lost (SIGKILL)' "$dir/out" || fail "nobody was killed"
[ "$(sed -n 's/^\[w[0-9]*\] done //p' "$dir/out" | sort -u | wc -l)" = 1 ] || fail "ends differ"
sed -n 's/^\[w[0-9]*\] done //p' "$dir/out" | grep -q '^800 ' || fail "not all steps were done"
echo "kills and respawns: $(grep -c 'lost (SIGKILL)' "$dir/err") lost, all ends equal"

# 2. SIGTERM is a planned leave of all.
begin "$spotnik" run -n 3 -- "$worker" -u 1000
wait_for out 'commit 20 '
kill -TERM $run
wait $run
status_is 75 $? "run after SIGTERM"
[ "$(grep -c '^\[w[0-9]*\] leaving ' "$dir/out")" = 3 ] || fail "not all workers left in good order"
echo "SIGTERM: three planned leaves, exit status 75"

# What a worker leaves behind learns that nobody reads its output any more, while the agent and another worker live on.
timeout 60 "$spotnik" run -n 2 -- sh -c 'trap "" PIPE TERM
    [ "$SPOTNIK_SLOT" = 1 ] || { (while echo x 2>/dev/null; do :; done; : >"$0") & exit 0; }
    until [ -e "$0" ]; do :; done' "$dir/left" >"$dir/out" 2>"$dir/err"
status_is 0 $? "run of a worker that leaves a child behind"

# 3. A worker's failure is the run's.
"$spotnik" run -n 1 -- sh -c 'exit 7' >"$dir/out" 2>"$dir/err"
status_is 7 $? "run of a worker that fails"

# Two programs that differ in the number of buckets are both told so, even when it shows in the last step of the job.
for odd in 0 1; do
    timeout 60 "$spotnik" run -n 2 -- sh -c '[ "$SPOTNIK_SLOT" = "$1" ] && exec "$0" -s 1 -m; exec "$0" -s 1' \
        "$worker" $odd >"$dir/out" 2>"$dir/err"
    [ "$(grep -c 'error -200' "$dir/out")" = 2 ] || fail "different programs, odd one $odd: not both were told"
done
echo "different programs: both told, in the last step"

# Of three with one odd one all end, and each is told which bucket of which two members it is.
for transport in auto tcp; do
    for odd in more:3 size:1 op:2 'empty:[012]'; do
        timeout 60 "$spotnik" run -n 3 --transport $transport -- sh -c \
            '[ "$SPOTNIK_SLOT" != 1 ] || export WORKER_ODD="$1"; exec "$0" -s 300 -u 1000' "$worker" "${odd%:*}" >"$dir/out" 2>"$dir/err"
        [ "$(grep 'error -200' "$dir/out" |
            grep -Ec ", bucket ${odd#*:}, (this )?member .*, and (this )?member |has (. |no )?buckets, and (this )?member ")" = 3 ] ||
            fail "$transport, $odd: not all three were told which buckets differ"
    done
done
echo "different programs: of three, all end, and are told whose buckets differ"

# torchrun's variables: a rank is a place, and all see the same meeting point.
"$spotnik" run -q -n 2 --torchrun-env -- sh -c 'echo "$RANK $LOCAL_RANK $WORLD_SIZE $LOCAL_WORLD_SIZE $GROUP_RANK $MASTER_ADDR $MASTER_PORT"; exit 3' \
    >"$dir/out" 2>"$dir/err"
status_is 3 $? "run that prints its variables"
sed 's/^\[w[0-9]*\] //' "$dir/out" | sort >"$dir/variables"
[ "$(cut -d' ' -f1-6 "$dir/variables")" = "0 0 2 2 0 127.0.0.1
1 1 2 2 0 127.0.0.1" ] || fail "torchrun's variables"
[ "$(cut -d' ' -f7 "$dir/variables" | sort -u | grep -c '^[0-9][0-9]*$')" = 1 ] || fail "MASTER_PORT"
echo "torchrun's variables: set"

# GPUs: each worker its own of those that are named here; with torchrun's variables, or 0, all see all.
seen() { CUDA_VISIBLE_DEVICES=4,7 "$spotnik" run -q -n 2 "$@" -- sh -c 'echo "$SPOTNIK_SLOT $CUDA_VISIBLE_DEVICES"; exit 3' 2>/dev/null |
    sed 's/^\[w[0-9]*\] //' | sort; }
[ "$(seen)" = "0 4
1 7" ] || fail "a GPU for each worker: $(seen)"
for option in --torchrun-env --gpus-per-worker=0; do
    [ "$(seen $option)" = "0 4,7
1 4,7" ] || fail "GPUs with $option: $(seen $option)"
done
echo "GPUs: dealt"

# The workers share the processors of this host, unless the user says otherwise.
share=$(($(env -u OMP_NUM_THREADS -u OMP_THREAD_LIMIT nproc) / 2))
[ "$share" -ge 1 ] || share=1
for said in "" 7; do
    env -u OMP_NUM_THREADS ${said:+OMP_NUM_THREADS=$said} "$spotnik" run -q -n 2 -- sh -c 'echo "$OMP_NUM_THREADS"' \
        >"$dir/out" 2>"$dir/err"
    [ "$(sed 's/^\[w[0-9]*\] //' "$dir/out" | sort -u)" = "${said:-$share}" ] || fail "OMP_NUM_THREADS: $(cat "$dir/out")"
done
echo "processors: shared"

# 4. Ask a live job.
mkdir "$dir/peers"
touch "$dir/peers/fresh"
"$spotnik" key "$dir/key" >"$dir/out" 2>"$dir/err" || fail "spotnik key"
"$spotnik" key "$dir/key" >"$dir/out" 2>"$dir/err" && fail "spotnik key overwrote a key"
begin "$spotnik" run -n 3 --peers "file:$dir/peers" --key-file "$dir/key" -- "$worker" -u 1000
wait_for out 'commit 50 '
"$spotnik" status --peers "file:$dir/peers" --key-file "$dir/key" --json >"$dir/status" 2>&1 || fail "spotnik status"
grep -q '"size": *3' "$dir/status" || fail "status does not show three members: $(cat "$dir/status")"
"$spotnik" status --peers "file:$dir/peers" --key-file "$dir/key" >"$dir/status" 2>&1 || fail "spotnik status in words"
"$spotnik" key "$dir/other" >/dev/null 2>&1
"$spotnik" status --peers "file:$dir/peers" --key-file "$dir/other" >"$dir/status" 2>&1 && fail "another key was answered"
kill -TERM $run
wait $run
status_is 75 $? "run that was asked"
echo "status: a live job answers who has the key"

# A job under TLS, and those that ask it with and without.
mkdir "$dir/secret" && touch "$dir/secret/fresh"
begin "$spotnik" run -n 2 --tls psk --peers "file:$dir/secret" --key-file "$dir/key" -- "$worker" -u 1000
wait_for out 'commit 20 '
SPOTNIK_TLS=psk "$spotnik" status --peers "file:$dir/secret" --key-file "$dir/key" --json >"$dir/status" 2>&1 || fail "status under TLS"
grep -q '"size": *2' "$dir/status" || fail "status under TLS does not show two members: $(cat "$dir/status")"
SPOTNIK_TLS=off "$spotnik" status --peers "file:$dir/secret" --key-file "$dir/key" >"$dir/status" 2>&1 && fail "status without TLS"
grep -q 'has SPOTNIK_TLS=psk, and this process has off' "$dir/status" || fail "status without TLS says: $(cat "$dir/status")"
SPOTNIK_TLS=on "$spotnik" status --peers "file:$dir/secret" --key-file "$dir/key" >"$dir/status" 2>&1 && fail "SPOTNIK_TLS=on"
grep -q 'SPOTNIK_TLS must be off, psk, or cert:/FOLDER' "$dir/status" || fail "SPOTNIK_TLS=on says: $(cat "$dir/status")"
kill -TERM $run
wait $run
status_is 75 $? "run under TLS"
echo "TLS: a job answers who has the same setting"

# Checkpoints that cannot be written show in the text and in the exit status; those that are complete do, too.
mkdir "$dir/watched"
begin env SPOTNIK_CHECKPOINT="$dir/shelf" SPOTNIK_CHECKPOINT_STEPS=5 "$spotnik" run -n 2 --peers "file:$dir/watched" \
    --key-file "$dir/key" -- "$worker" -u 2000
wait_for out 'commit 20 '
# ask_until EXIT PATTERN: the job, 60 s at most
ask_until() {
    timeout 60 sh -c 'while "$1" status --peers "$2" --key-file "$3" >"$4"; [ $? != "$5" ] || ! grep -q -e "$6" "$4"; do :; done' \
        ask "$spotnik" "file:$dir/watched" "$dir/key" "$dir/status" "$1" "$2" || fail "never exit $1 with '$2': $(cat "$dir/status")"
}
ask_until 0 '^checkpoints: the last complete one is after step [1-9]'
mv "$dir/shelf" "$dir/shelf.away"
# a job makes a folder that was removed again, so it may be there before the file is
until (: >"$dir/shelf") 2>/dev/null; do rm -rf "$dir/shelf" || true; done
ask_until 3 '^CHECKPOINTS FAIL: the last complete one is after step [1-9].* [1-9][0-9]* left out.*Not a directory'
rm "$dir/shelf"
mv "$dir/shelf.away" "$dir/shelf"
ask_until 0 '^checkpoints: the last complete one is after step [1-9]'
kill -TERM $run
wait $run
status_is 75 $? "run that was watched"
echo "status: checkpoints that fail, and work again"

# A job that changes its strategy says when and why, in the log and when asked.
mkdir "$dir/switching"
touch "$dir/switching/fresh"
begin env WORKER_TURNS=1 "$spotnik" run -n 2 --sync auto:ssgd/localsgd --peers "file:$dir/switching" --key-file "$dir/key" -- "$worker" -u 1000
wait_for out 'commit 50 '
"$spotnik" status --peers "file:$dir/switching" --key-file "$dir/key" >"$dir/status" 2>&1 || fail "spotnik status of a job that switches"
grep -q '^strategy .* by auto:ssgd/localsgd, [1-9][0-9]* switches; since step' "$dir/status" ||
    fail "status does not name the strategy: $(cat "$dir/status")"
kill -TERM $run
wait $run
status_is 75 $? "run that switches and was asked"
grep -q "spotnik: step [0-9]*: asynchronous from here on: the policy of the program asked for it" "$dir/err" ||
    fail "the log does not tell of switches: $(cat "$dir/err")"
"$spotnik" run -q -n 1 --sync auto:sometimes -- "$worker" -s 5 >"$dir/out" 2>"$dir/err" && fail "a policy that does not exist"
echo "strategies: switches are in the log and in the status"

# 5. A trace: adds and removes at their instants; lines that are no trace are named.
printf '0,add,a\n0,add,b\n0,add,c\n900,remove,b\n1200,add,d\n' >"$dir/trace"
# churned: the fourth that comes stands in a view of three, and three are there at the end
churned() {
    begin "$spotnik" run -n 1:4 --churn "$dir/trace" -- "$worker" -u 1000
    wait_for out '^.w3. commit [0-9]* [0-9a-f]* [0-9]* 3 '
    kill -TERM $run
    wait $run
    status_is 75 $? "run of $1"
    [ "$(grep -c '^\[w[0-9]*\] leaving ' "$dir/out")" = 3 ] || fail "$1: not three workers are left at the end"
}
churned "a trace"
printf '{"metadata":{"gap_seconds":0.3},"data":[3,3,3,2,3,3]}' >"$dir/trace"
churned counts
grep -q 'goes: w' "$dir/err" && grep -q ' 4 comes: w' "$dir/err" || fail "one goes, a new one comes"
printf '0,add,a\n5,ad,b\n' >"$dir/trace"
"$spotnik" run -n 1:4 --churn "$dir/trace" -- "$worker" >"$dir/out" 2>"$dir/err"
status_is 2 $? "run of a damaged trace"
grep -q '2' "$dir/err" || fail "the damaged line is not named"
echo "churn: a trace was replayed, a damaged one refused"

# 6. The only machine of a job is gone for good. Another one waits for it, and the log says how long.
mkdir "$dir/lonely"
touch "$dir/lonely/fresh"
SPOTNIK_HOST=one SPOTNIK_JOB=spotnik SPOTNIK_PEERS="file:$dir/lonely" SPOTNIK_KEY_FILE="$dir/key" begin "$worker" -u 1000
wait_for out 'commit 20 '
kill -KILL $run
wait $run 2>/dev/null
SPOTNIK_HOST=two SPOTNIK_STALE_MS=3000 "$spotnik" run -n 1 --peers "file:$dir/lonely" --key-file "$dir/key" -- "$worker" -s 20 \
    >"$dir/out" 2>"$dir/err"
status_is 0 $? "run after another machine was lost"
grep -q 'looking for the job: .* of 3 s' "$dir/err" || fail "the log does not say what is waited for"
SPOTNIK_PEERS= "$spotnik" run -n 1 -- true >"$dir/out" 2>"$dir/err"
status_is 1 $? "run with an empty SPOTNIK_PEERS"
echo "a lost machine is waited for, and the log says so"

# 7. Wrong command lines.
"$spotnik" run -n 2 >"$dir/out" 2>"$dir/err"
status_is 2 $? "run without a command"
"$spotnik" stauts >"$dir/out" 2>"$dir/err"
status_is 2 $? "an unknown command"
grep -q 'status' "$dir/err" || fail "no suggestion for an unknown command"
"$spotnik" run -n 3:2 -- true >"$dir/out" 2>"$dir/err"
status_is 2 $? "run with MIN above MAX"
"$spotnik" --help >"$dir/out" || fail "--help"
"$spotnik" --version | grep -q '^spotnik [0-9]' || fail "--version"
echo "wrong command lines are refused with status 2"
