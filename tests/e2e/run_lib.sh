# SPDX-License-Identifier: Apache-2.0
# What the tests of `spotnik run` share; each reads this file first: . "$(dirname "$0")/run_lib.sh". Their arguments are SPOTNIK WORKER.
# shellcheck shell=sh
set -u
spotnik=$1
worker=$2
dir=$(mktemp -d)
trap 'kill ${runs:-} 2>/dev/null; rm -rf "$dir"' EXIT
export dir worker spotnik

fail() {
    echo "FAILED: $1"
    tail -n 20 "$dir"/out "$dir"/err "$dir"/*.out "$dir"/*.err "$dir"/logs/* 2>/dev/null
    exit 1
}

# status_is NUMBER STATUS WHAT
status_is() {
    [ "$2" = "$1" ] || fail "$3: exit status $2, not $1"
}

# wait_for FILE PATTERN: until a line of the file has it, 60 s at most
wait_for() {
    timeout 60 sh -c 'tail -n +1 -F "$0" 2>/dev/null | grep -q -m1 -e "$1"' "$dir/$1" "$2" || fail "never saw in $1: $2"
}

# until_true COMMAND: 60 s at most
until_true() {
    timeout 60 sh -c 'until $0; do sleep 0.05; done' "$1" || fail "waited for: $1"
}

# begin COMMAND...: in the background, as $run, with nothing of the last command in the way
begin() {
    : >"$dir/out"
    : >"$dir/err"
    "$@" >"$dir/out" 2>"$dir/err" &
    run=$!
    runs="${runs:-} $!"
}
