#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The shared library exports exactly what the public headers declare, under names of ours, and carries the SONAME that
# programs are linked against. Usage: test_exports.sh NM OBJDUMP LIBRARY HEADER...
set -eu

exported=$("$1" -D --defined-only "$3" | awk '$2 != "A" { sub(/@.*/, "", $3); print $3 }' | sort -u)
objdump=$2 library=$3
shift 3
# A declaration may go on in the next line before its name.
declared=$(cat "$@" | grep -v '^# *define' | tr '\n' ' ' | sed 's/SPOTNIK_API /\n&/g' | grep '^SPOTNIK_API ' | sed 's/(.*//; s/ *$//; s/.*[ *]//' | sort -u)

foreign=$(echo "$exported" | grep -v '^spotnik_' || :)
[ -z "$foreign" ] || { echo "exported, but not ours:" $foreign; exit 1; }

for name in $exported; do
    echo "$declared" | grep -qx "$name" || { echo "exported, but not declared in the header: $name"; exit 1; }
done
for name in $declared; do
    echo "$exported" | grep -qx "$name" || { echo "declared in the header, but not exported: $name"; exit 1; }
done
"$objdump" -p "$library" | grep -q 'SONAME *libspotnik\.so\.0$' || { echo "the SONAME is not libspotnik.so.0"; exit 1; }
# Notices are the command's: people who link the library need no HTTP client (docs/design/0021-operators.md).
! "$objdump" -p "$library" | grep -i 'NEEDED.*curl' || { echo "libspotnik needs libcurl"; exit 1; }
