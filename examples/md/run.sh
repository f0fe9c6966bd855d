#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# One worker of the bag, or the only one: run it on as many machines as see this folder. Arguments are passed on, such as --at-once 4.
cd "$(dirname "$0")" || exit 1
[ -e jobs.csv ] || ./jobs.sh >jobs.csv
exec spotnik bag jobs.csv --input in.lj --input in.again --input in.common --input in.end --expect final.txt \
    --restart 'restart.[0-9]*' \
    --resume 'lmp -in in.again -log none -var file {restart} -var T {T} -var steps {steps}' "$@" \
    -- lmp -in in.lj -log none -var T {T} -var rho {rho} -var seed {seed} -var steps {steps}
