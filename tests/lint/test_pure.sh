#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The pure layers call nothing that could be a system call, a lock, a clock or an allocation, and compute nothing with
# floating point: read from the archives themselves. Usage: test_pure.sh [-f] NM OBJDUMP PURE_BASE CALLS COUNTS ARCHIVE...
# -f: floating point is allowed, calls are not.
# PURE_BASE is the part of src/base that pure layers may use and is checked too. CALLS and COUNTS are archives that must
# be refused, for calls and for floating point, so that we know the check can fail.
set -eu

floats_allowed=0
if [ "$1" = -f ]; then
    floats_allowed=1
    shift
fi
nm=$1
objdump=$2
base=$3
calls=$4
counts=$5
shift 5

# What the compiler itself may call for: block moves, also with their bounds checked, and the guard of the stack.
allowed='__(memcpy|memmove|memset)_chk|memcpy|memmove|memset|memcmp|bcmp|__stack_chk_fail|_GLOBAL_OFFSET_TABLE_|spotnik_assert_fail'

# foreign ARCHIVE...: undefined symbols that are neither allowed nor defined by one of these archives.
foreign()
{
    { "$nm" --defined-only -g "$@" | awk 'NF == 3 { print "D", $3 }'
      "$nm" -u "$@" | awk '$1 == "U" || $1 == "w" { print "U", $2 }'; } |
        awk -v allowed="^($allowed)\$" '
            $1 == "D" { defined[$2] = 1 }
            $1 == "U" && !($2 in defined) && $2 !~ allowed { print $2 }' | sort -u
}

# floats ARCHIVE: functions with scalar or vector floating-point arithmetic (x86-64 names).
floats()
{
    "$objdump" -d --no-show-raw-insn "$1" | awk '
        /^[0-9a-f]+ <.*>:$/ { name = $2 }
        $2 ~ /^v?(add|sub|mul|div|sqrt|min|max|u?comi|cvt[a-z0-9]*)(ss|sd|ps|pd)$/ { print name " " $2 }
        $2 ~ /^v?cvt/ { print name " " $2 }' | sort -u
}

status=0
found=$(foreign "$base" "$@")
if [ -n "$found" ]; then
    echo "the pure layers need symbols that are not pure:" $found
    "$nm" -A -u "$@" | grep -wF "$found" || :
    status=1
fi
for archive in "$base" "$@"; do
    [ "$floats_allowed" = 0 ] || break
    found=$(floats "$archive")
    if [ -n "$found" ]; then
        echo "floating point in $archive:"
        echo "$found"
        status=1
    fi
done

if [ -z "$(foreign "$calls")" ]; then
    echo "the check is blind: it found no call in $calls"
    status=1
fi
if [ "$(uname -m)" = x86_64 ] && [ -z "$(floats "$counts")" ]; then
    echo "the check is blind: it found no floating point in $counts"
    status=1
fi
exit $status
