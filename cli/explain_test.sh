#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Which algorithm `spotnik bench allreduce --explain` says was taken, and why, on one host, on hosts that are shared, and on hosts of one
# member each. The engine says what it did; this checks that it is what the design says, and that there is a reason for each.
# One step is enough: the bench itself waits until memory is shared, however long that takes on a busy machine.
#
#     explain_test.sh SPOTNIK
set -u
said=
failures=0

ask() {
    said=$("$1" bench allreduce --sizes 4KiB,1MiB --steps 1 --explain --workers "$2" --hosts "$3") || exit 1
    asked="$2 workers on $3 hosts"
}

expect() {
    echo "$said" | grep -Eq -- "$1" && return
    echo "$asked: expected to read: $1"
    failures=$((failures + 1))
}

expect_not() {
    echo "$said" | grep -Eq -- "$1" || return
    echo "$asked: did not expect to read: $1"
    failures=$((failures + 1))
}

ask "$1" 3 1
expect '^ +3 +4 KiB +shm, owned +flat small '
expect '^ +3 +1 MiB +shm +flat large '
expect '^ +3 +4 KiB +tcp +hub '
expect '^ +3 +1 MiB +tcp +ring '
expect '^  flat small +all members share memory, and the bucket has at most 32 KiB'
expect '^  the table +of buckets that go over TCP'
expect '^  connections  from worker 0 to (the next|another): 1 connection, congestion control [a-z]+, round trip [0-9.]+ ms'
expect_not 'hierarchy'

ask "$1" 4 2
expect '^ +4 +4 KiB +shm, owned +hierarchy '
expect '^ +4 +1 MiB +shm +hierarchy '
expect '^  hierarchy +2 hosts, some of several members'
expect 'a host sends 2 \* 1/2 of the bucket over its card'
expect '2 \* 3/4 of it. Up to 32 KiB'
expect_not 'flat (small|large)'

ask "$1" 2 2
expect '^ +2 +4 KiB +shm +direct '
expect '^ +2 +1 MiB +shm +ring '
expect 'views in which no members share a host'
expect_not 'hierarchy|flat (small|large)'

[ "$failures" -eq 0 ] || echo "$said"
exit "$failures"
