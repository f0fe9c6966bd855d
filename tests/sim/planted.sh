#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A rule of the protocol broken on purpose is caught by a checker: planted.sh SPOTNIK BUG COUNT. Fails when COUNT histories pass.
set -u
if "$1" sim --plant "$2" --seeds "$3" >/dev/null 2>&1; then
    echo "$3 histories passed with $2 planted: the checkers are blind to it"
    exit 1
fi
# Caught, and not just refused: the same histories pass without it.
"$1" sim --seeds 20 >/dev/null
