# SPDX-License-Identifier: Apache-2.0
"""In place of LAMMPS: a made-up fluid at walls, with layers that grow as it gets cold and dense, and
noise as a short run has it. standin.py T RHO SEED"""

import math
import random
import sys

T, RHO, SEED = (float(word) for word in sys.argv[1:])
draw = random.Random(SEED)
with open("profile.txt", "w") as file:
    for i in range(25):
        z, layers = 0.3 * (i + 0.5), RHO**3 * 4 / T
        wave = layers * (math.exp(-z) + math.exp(z - 7.5)) * math.cos(2 * math.pi * z / 1.07)
        file.write(f"{RHO * (1 + wave) * (1 - math.exp(-2 * z * (7.5 - z))) + draw.gauss(0, 0.005):.6f}\n")
