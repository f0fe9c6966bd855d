#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Where the lines of workers go under `spotnik run`. Claims:
#   1. --output senior shows the member of lowest rank, also where another worker was started first; when it is killed, the
#      next one's output goes on; the errors of another worker are shown when it fails, and only then;
#   2. that is so on a terminal without being said, and on a pipe all are shown;
#   3. --log-dir keeps all that each worker prints, whatever is shown; files are appended to, and their owner alone reads them;
#   4. no line is torn: halves that come at different times stand in one line. Where the agent
#      itself is killed the workers end, and the files of --log-dir are whole;
#   5. a file of --log-dir that logrotate cuts to nothing (copytruncate) goes on at its beginning, and so does the screen.
#
#     run_output.sh SPOTNIK WORKER
. "$(dirname "$0")/run_lib.sh"

# shown: the workers whose lines of standard output are on the screen, in order, each once per stretch
shown() {
    sed -n 's/^\[\(w[0-9]*\)\] .*/\1/p' "$dir/out" | uniq | tr '\n' ' '
}

# 1. w1 begins the job alone and so has rank 0, though w0 was started before it. w0 then joins, and w1 is killed. Each has a
# child that prints: its own lines would come too fast to tell when the change is.
program='echo $$ >"$dir/pid.$SPOTNIK_WORKER"
if [ "$SPOTNIK_WORKER" = 0 ]; then until [ -e "$dir/joins" ]; do sleep 0.01; done; fi
exec "$worker" -u 1000'
begin "$spotnik" run -n 1:2 --output senior --log-dir "$dir/logs" -- sh -c "$program"
wait_for out '^\[w1\] commit 5 '
: >"$dir/joins"
wait_for logs/w0.log '^commit [0-9]* [0-9a-f]* [0-9]* 2 '
[ "$(shown)" = "w1 " ] || fail "the workers shown before the kill: $(shown)"
last=$(sed -n 's/^commit \([0-9]*\) .*/\1/p' "$dir/logs/w0.log" | tail -n 1)
kill -KILL "$(cat "$dir/pid.1")"
wait_for err 'w1 lost (SIGKILL)'
wait_for out '^\[w0\] commit '
kill -TERM $run
wait $run
status_is 75 $? "run whose senior was killed"
[ "$(shown)" = "w1 w0 " ] || fail "the workers shown: $(shown)"
grep -q '^\[w0\] leaving ' "$dir/out" || fail "the end of the next senior is not shown"
# No step is missing on the screen between the two but those that the killed one did not live to tell of.
gap=$(sed -n 's/^\[w[01]\] commit \([0-9]*\) .*/\1/p' "$dir/out" | awk 'NR > 1 && $1 > last + 1 { n += $1 - last - 1 } { last = $1 } END { print n + 0 }')
[ "$gap" -le 2 ] || fail "$gap steps are not on the screen"
[ "$(stat -c %a "$dir/logs/w0.log")" = 600 ] || fail "others may read w0.log"
grep -q '^commit 1 ' "$dir/logs/w1.log" || fail "w1.log lacks the first step"
echo "senior: the member of lowest rank, then the next one, from step $last on"

# Errors of another worker: shown when it fails, with its number, and not while it runs well.
begin "$spotnik" run -n 2 --output senior -- sh -c 'echo "said $SPOTNIK_WORKER"; echo "warned $SPOTNIK_WORKER" >&2
[ "$SPOTNIK_WORKER" = 0 ] || exit 3
until [ -e "$dir/enough" ]; do sleep 0.01; done'
wait_for err '^\[w1\] warned 1'
wait_for err 'w1 failed (exit status 3)'
: >"$dir/enough"
wait $run
status_is 0 $? "run of which one worker fails, and the other ends with 0"
[ "$(cat "$dir/out")" = "[w0] said 0" ] || fail "not the first worker's output alone"
[ "$(grep -c '^\[w0\] warned 0' "$dir/err")" = 1 ] || fail "the first worker's errors are not shown once"
# The first worker stays until the other's line was passed on: who outlives it is the senior, and is shown.
"$spotnik" run -q -n 2 --output senior --log-dir "$dir/quiet" -- sh -c '[ "$SPOTNIK_WORKER" = 0 ] || { echo warned >&2; exit 0; }
until grep -q warned "$dir/quiet/w1.log" 2>/dev/null; do sleep 0.01; done' >"$dir/out" 2>"$dir/err"
status_is 0 $? "run in which one worker warns"
[ ! -s "$dir/err" ] || fail "a worker that ends well is shown"
echo "errors: shown of a worker that fails"

# What all say at the end of a job is shown of the senior alone: nobody follows one that has ended with the job.
"$spotnik" run -n 3 --output senior -- "$worker" -s 30 -u 1000 >"$dir/out" 2>"$dir/err"
status_is 0 $? "run to the end"
[ "$(grep -c '^\[w[0-9]*\] done 30 ' "$dir/out")" = 1 ] || fail "the end is not shown once"
echo "the end: shown once"

# 2. A terminal, and a pipe.
command="$spotnik run -q -n 3 --log-dir $dir/terminal -- sh -c 'echo early \$SPOTNIK_WORKER; until [ -e $dir/seen ]; do sleep 0.01; done'"
script -qefc "$command" /dev/null >"$dir/out" 2>"$dir/err" </dev/null &
run=$!
for number in 0 1 2; do
    wait_for terminal/w$number.log "^early $number"
done
wait_for out '^\[w0\] early 0'
: >"$dir/seen"
wait $run
status_is 0 $? "run on a terminal"
[ "$(grep -c early "$dir/out")" = 1 ] || fail "on a terminal not one worker is shown"
sh -c "$command" 2>"$dir/err" | cat >"$dir/out"
[ "$(grep -c '^\[w[012]\] early [012]$' "$dir/out")" = 3 ] || fail "on a pipe not all workers are shown"
script -qefc "${command%%-n*} --output all -n ${command#*-n}" /dev/null >"$dir/out" 2>"$dir/err" </dev/null
[ "$(grep -c '^\[w[012]\] early [012]' "$dir/out")" = 3 ] || fail "--output all on a terminal does not show all"
echo "terminal: one; pipe: all"

# 3. Files are appended to, and nothing is shown where nothing is wanted.
[ "$(cat "$dir/terminal/w1.log")" = "early 1
early 1
early 1" ] || fail "w1.log of three runs"
"$spotnik" run -q -n 2 --output none --log-dir "$dir/terminal" -- sh -c 'echo more; echo worse >&2; exit 4' \
    >"$dir/out" 2>"$dir/err"
status_is 4 $? "run that shows nothing"
[ ! -s "$dir/out" ] && [ ! -s "$dir/err" ] || fail "--output none shows something"
[ "$(tail -n 2 "$dir/terminal/w1.log" | sort | tr '\n' ' ')" = "more worse " ] || fail "a file is not appended to"
"$spotnik" run -n 1 --output loud -- true >"$dir/out" 2>"$dir/err"
status_is 2 $? "run with an unknown --output"
"$spotnik" run -n 1 --log-dir "$dir/seen/inside" -- true >"$dir/out" 2>"$dir/err"
status_is 1 $? "run with a --log-dir that cannot be made"
grep -q 'cannot write to .*seen/inside' "$dir/err" || fail "the folder is not named"
echo "files: kept of all, appended to"

# 4. Each worker prints half a line, waits until all have, and prints the rest; then the agent is killed, and they do so again.
halves='printf "$1 "; : >"$dir/half.$1.$SPOTNIK_WORKER"
for number in 0 1 2; do until [ -e "$dir/half.$1.$number" ]; do sleep 0.01; done; done; echo "of $SPOTNIK_WORKER"'
begin env TMPDIR="$dir" "$spotnik" run -n 3 --log-dir "$dir/halves" -- sh -c "said() { $halves; }
said first; until [ -e \$dir/alone ]; do sleep 0.01; done"
for number in 0 1 2; do
    wait_for out "^\[w$number\] first of $number\$"
done
kill -KILL $run
wait $run 2>/dev/null
for number in 0 1 2; do
    [ "$(wc -l <"$dir/halves/w$number.log")" = 1 ] || fail "w$number.log has other lines"
done
[ "$(grep -cv '^\[w\([012]\)\] first of \1$' "$dir/out")" = 0 ] || fail "a line is torn"
begin env TMPDIR="$dir" "$spotnik" run -n 1 -- sh -c 'echo "pid $$"; until [ -e "$dir/orphan" ]; do sleep 0.01; done; echo second; : >"$dir/wrong"'
wait_for out '^\[w0\] pid [0-9]'
kill -KILL $run
wait $run 2>/dev/null
: >"$dir/orphan"
timeout 60 tail --pid="$(sed -n "s/^\[w0\] pid //p" "$dir/out")" -f /dev/null || fail "a worker lives on without its agent"
[ ! -e "$dir/wrong" ] || fail "a worker without --log-dir went on after its agent"
echo "lines: whole, also where the agent is killed, and its workers end with it"

# 5. As logrotate does with copytruncate: the file is copied, and cut to nothing while its worker has it open.
begin "$spotnik" run -q -n 1 --log-dir "$dir/rotated" -- sh -c 'echo "a long first line"; until [ -e "$dir/cut" ]; do sleep 0.01; done; echo short
until [ -e "$dir/read" ]; do sleep 0.01; done; echo last'
wait_for out '^\[w0\] a long first line'
cp "$dir/rotated/w0.log" "$dir/rotated/w0.log.1"
: >"$dir/rotated/w0.log"
: >"$dir/cut"
wait_for out '^\[w0\] short'
: >"$dir/read"
wait $run
status_is 0 $? "run whose log is rotated"
[ "$(cat "$dir/rotated/w0.log")" = "short
last" ] || fail "the file does not begin anew: $(od -c "$dir/rotated/w0.log" | head)"
[ "$(grep -c . "$dir/out")" = 3 ] || fail "not three lines on the screen"
echo "rotation: lines after it are shown, and the file begins anew"

# Two options for what steps wait for would leave one of them unheard.
"$spotnik" run -n 2:3 --min 2 -- true >"$dir/out" 2>"$dir/err"
status_is 2 $? "run with -n MIN:MAX and --min"
grep -q 'give -n 3 --min 2$' "$dir/err" || fail "what to give instead is not told"
