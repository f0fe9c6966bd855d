#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Assertions for each function, by folder of src/. With folders as arguments: those alone.
#   dev/asserts.sh vote route
# The layout (.clang-format) opens the body of a function, and nothing else, with a brace in column 1.
set -eu
cd "$(dirname "$0")/../src"

[ $# -gt 0 ] || set -- *
for folder; do
    [ -d "$folder" ] || continue
    cat "$folder"/*.[ch] | awk -v folder="$folder" '
        /^\{/ { functions++ }
        /SPOTNIK_ASSERT\(/ && !/#define/ { asserts++ }
        END {
            if (functions)
                printf "%-12s %5d functions %5d asserts %6.2f\n", folder, functions, asserts, asserts / functions
        }'
done
