#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A grid of temperatures and densities: 20 x 10 runs.
echo job,T,rho,seed,steps
for t in 0.8 0.9 1.0 1.1 1.2 1.3 1.4 1.5 1.6 1.7 1.8 1.9 2.0 2.1 2.2 2.3 2.4 2.5 2.6 2.7; do
    for rho in 0.30 0.35 0.40 0.45 0.50 0.55 0.60 0.65 0.70 0.75; do
        seed=$((${seed:-100} + 1))
        echo "T$t-rho$rho,$t,$rho,$seed,${STEPS:-100000}"
    done
done
