#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# All cases of tests/e2e/network_faults.py once; then the nemesis of tests/nemesis, seed after seed (docs/reference/how-we-test.md). FOLDER/record.jsonl is the cumulative record; broken off, it goes on
# there. Ends with a table. Usage: dev/soak.sh BUILD FOLDER [MINUTES] [options of tests/nemesis/soak.py]
set -eu
cd "$(dirname "$0")/.."

build=$1
folder=$2
minutes=${3:-60}
[ $# -lt 3 ] || shift
shift 2
dev/build.sh "$build"
python3 tests/e2e/network_faults.py "$build/cli/spotnik" "$build/tests/e2e/e2e-worker" || [ $? = 77 ] # no namespaces here
exec python3 tests/nemesis/soak.py "$build/tests/nemesis/nemesis-member" "$build/cli/spotnik" "$folder" --minutes "$minutes" "$@"
