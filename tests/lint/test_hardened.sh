#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The library and the commands are built hardened: read from what was built. Branch protection is read from each object,
# since start files of some distributions (Debian's among them) have none, and the linker then drops the whole note.
# Usage: test_hardened.sh READELF ARCHIVE LIBRARY COMMAND...
set -eu

readelf=$1
archive=$2
shift 2
status=0
wrong()
{
    echo "not hardened: $*"
    status=1
}

# has FILE OPTION PATTERN WHAT
has()
{
    "$readelf" -W "$2" "$1" 2>/dev/null | grep -Eq -- "$3" || wrong "$1: $4"
}

for file in "$@"; do
    has "$file" -h 'Type: +DYN' 'it does not move (-fPIE -pie)'
    has "$file" -l 'GNU_RELRO' 'no segment becomes read-only (-z relro)'
    has "$file" -d 'FLAGS.*BIND_NOW|FLAGS_1.*NOW' 'functions are looked up late (-z now)'
    has "$file" --dyn-syms '__stack_chk_fail' 'no stack protector'
    has "$file" --dyn-syms '__[a-z]+_chk(@|$)' 'no _FORTIFY_SOURCE'
    ! "$readelf" -W -l "$file" | grep -Eq 'GNU_STACK.*RWE' || wrong "$file: its stack is executable"
done

# One line an object: its name, and what its code promises of branches.
"$readelf" -W -n "$archive" | awk '
    /^File: / { if (name) print name ": " said; name = $2; said = "" }
    /x86 feature: |AArch64 feature: / { said = $0 }
    END { print name ": " said }' >"${TMPDIR:-/tmp}/hardened.$$"
trap 'rm -f "${TMPDIR:-/tmp}/hardened.$$"' EXIT
[ "$(wc -l <"${TMPDIR:-/tmp}/hardened.$$")" -gt 100 ] || wrong "$archive: the check is blind, it found hardly an object"
bare=$(grep -vE 'IBT, SHSTK|BTI, PAC' "${TMPDIR:-/tmp}/hardened.$$" || :)
[ -z "$bare" ] || wrong "objects without branch protection: $bare"
exit $status
