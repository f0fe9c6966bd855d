#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The hook takes subjects as the house writes them, and refuses others. Usage: test_commit_msg.sh ROOT
set -eu
hook=$1/dev/hooks/commit-msg
message=$(mktemp)
trap 'rm -f "$message"' EXIT INT TERM

expect()
{
    printf "$2" >"$message"
    if "$hook" "$message" 2>/dev/null; then was=taken; else was=refused; fi
    [ "$was" = "$1" ] || { echo "$was, not $1: $2"; exit 1; }
}

expect taken 'transfer: bound the wait by progress\n\nWhat was wrong.\n'
expect taken 'docs, cli: name the actor\n'
expect taken 'Merge branch of somebody\n'
expect refused 'bound the wait by progress\n'
expect refused 'transfer: bound the wait by progress.\n'
expect refused 'transfer: bound the wait for a joiner by its own progress beside us\n'
expect refused 'transfer: bound the wait\nWhat was wrong.\n'
