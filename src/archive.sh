#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Make the archive that users link: one object, in which only names that begin with spotnik_ can be seen. Names that files of one
# folder share among themselves (`fail`, `freeze`) would otherwise clash with the user's. Usage: archive.sh OBJCOPY AR IN OUT COMPILER...
set -eu

objcopy=$1
ar=$2
inside=$3
archive=$4
shift 4
object=$archive.p.o
trap 'rm -f "$object"' EXIT
"$@" -r -nostdlib -Wl,--whole-archive "$inside" -o "$object"
"$objcopy" --wildcard --keep-global-symbol='spotnik_*' "$object"
rm -f "$archive"
"$ar" rcs "$archive" "$object"
