#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Rules of the house that a machine can read, over the tree named as argument (default: this one). Prints each breach
# as FILE: what is wrong, and fails if there was one.
#   layers   a file of src/ includes only folders that stand before its own in the list below; nothing of src/ includes
#            cli, tests or bench; no file includes the inside.h of another folder; src/base depends on nothing, src/reduce on base alone
#   private  src/membership and src/allreduce are seen by themselves alone; they and src/core meet in core/meet.h and core/state.h.
#            Commands, examples and tests but unit tests see none of these and no inside.h; the runtime shows them runtime/probe.h
#   packages a package includes src/base, common/, public headers and itself; common/ includes src/base and itself
#            research/ uses packages/planner, too; packages/bag uses src/store
#   pure     the pure layers include no system header beyond those without system calls
#   clock    nothing of src/ reads the wall clock: it steps, and no decision may; but for the dates of the event log,
#            of foundings, and of what a cloud wants signed
#   length   no file of C is longer than 600 lines; no line of a comment is longer than 100 columns
#   words    src/ does not use words that it once had for terms of the field: carriage, depot, lookout, tenure, shelf...
#   licence  every file of C has the SPDX line first
#   tidy     no tabs and no blanks at line ends in C; no notes to self in place of work
set -eu
cd "${1:-$(dirname "$0")/..}"

layers="base reduce ring ledger member step adapt core membership allreduce wire shm record link transport runtime transfer store checkpoint p2p discovery metrics http watch api group"
pure="ring ledger member step adapt core membership allreduce wire"
pure_headers="limits.h stdalign.h stdbool.h stddef.h stdint.h string.h"

files=$(find src include cli common packages research sim tests bench examples -name '*.[ch]' 2>/dev/null | sort)
# shellcheck disable=SC2086
awk -v layers="$layers" -v pure="$pure" -v pure_headers="$pure_headers" '
    function breach(what) { print FILENAME ": " what; breaches++ }

    function check_length()
    {
        if (lines > 600) {
            print file ": " lines " lines, the limit is 600"
            breaches++
        }
    }

    # Membership and all-reduce are seen by nobody; what they have in common with core, by the three.
    function is_private(target, own)
    {
        if (target ~ /^core\/(state|meet|phases)\.h$/)
            return own !~ /^(core|membership|allreduce)$/
        return target ~ /inside\.h$|^transport\/share\.h$/ || target ~ /^(membership|allreduce)\//
    }

    function check_include(own, target, quoted)
    {
        if (quoted && split(target, part, "/") > 1) {
            if (part[1] == "spotnik")
                return
            if (!(part[1] in place))
                breach("includes \"" target "\", which is no layer of src/")
            else if (place[part[1]] > place[own] || own == "reduce" && part[1] !~ /^(base|reduce)$/)
                breach("includes \"" target "\", but " part[1] " stands after " own " in the list of layers")
            else if (part[1] != own && is_private(target, own))
                breach("includes \"" target "\", which is private to " part[1])
        } else if (!quoted && own in is_pure && !(target in is_pure_header))
            breach("includes <" target ">; " own " is pure")
    }

    function check_outside(target)
    {
        if (split(target, part, "/") > 1 && is_private(target, ""))
            breach("includes \"" target "\", which is private to " part[1])
    }

    # A package asks the runtime by its commands. `own`: the folders of the package.
    function check_package(where, own, target)
    {
        if (split(target, part, "/") > 1 && part[1] !~ "^(base|common|spotnik" own ")$")
            breach("includes \"" target "\"; " where " uses base, common, public headers and itself")
    }

    BEGIN {
        n = split(layers, list, " ")
        for (i = 1; i <= n; i++)
            place[list[i]] = i
        n = split(pure, list, " ")
        for (i = 1; i <= n; i++)
            is_pure[list[i]] = 1
        n = split(pure_headers, list, " ")
        for (i = 1; i <= n; i++)
            is_pure_header[list[i]] = 1
        folders["packages/bag"] = "|bag|store"
        folders["packages/notices"] = "|notice"
        folders["packages/planner"] = "|plan"
        folders["research"] = "|plan|cli|tables"
        old = "carriage|depot|lookout|sighting|tenure|rumoured|(^|[^a-z])(shelf|rhythm|edition|knock|tally|graves|rumour)"
        note = "(^|[^A-Za-z0-9_])(TO" "DO|FIX" "ME|XX" "X)([^A-Za-z0-9_]|$)"
    }

    FNR == 1 {
        if (file != "")
            check_length()
        file = FILENAME
        split(file, path, "/")
        if ($0 != "/* SPDX-License-Identifier: Apache-2.0 */")
            breach("the first line is not the SPDX line")
        if (path[1] == "src" && !(path[2] in place))
            breach(path[2] " is not in the list of layers")
    }

    { lines = FNR }
    /\t/ { breach("line " FNR " has a tab") }
    # clang-format sees to code, but leaves comments, and strings that nothing can break.
    length($0) > 100 && !/"/ { breach("line " FNR " is longer than 100 columns") }
    /[ ]$/ { breach("line " FNR " ends in a blank") }
    $0 ~ note { breach("line " FNR " is a note to self") }

    path[1] == "src" && tolower($0) ~ old { breach("line " FNR " has a word that the house gave up (dev/tidy.sh: old)") }

    path[1] == "src" && FILENAME != "src/watch/date.c" && FILENAME != "src/discovery/founded_at.c" && FILENAME != "src/store/bucket_clock.c" && /CLOCK_REALTIME|gettimeofday|[^A-Za-z0-9_]time\((NULL|0|&)/ {
        breach("line " FNR " reads the wall clock; use CLOCK_MONOTONIC")
    }

    path[1] == "src" && /^[ ]*#[ ]*include[ ]*["<]/ {
        quoted = $0 ~ /include[ ]*"/
        target = $0
        sub(/^[^"<]*["<]/, "", target)
        sub(/[">].*$/, "", target)
        check_include(path[2], target, quoted)
    }

    (path[1] ~ /^(cli|examples)$/ || path[1] == "tests" && path[2] != "unit") && /^[ ]*#[ ]*include[ ]*"/ {
        target = $0
        sub(/^[^"]*"/, "", target)
        sub(/".*$/, "", target)
        check_outside(target)
    }

    path[1] ~ /^(common|packages|research)$/ && /^[ ]*#[ ]*include[ ]*"/ {
        target = $0
        sub(/^[^"]*"/, "", target)
        sub(/".*$/, "", target)
        own = path[1] == "packages" ? path[1] "/" path[2] : path[1]
        check_package(own, folders[own], target)
    }

    END {
        check_length()
        exit breaches > 0
    }' $files
