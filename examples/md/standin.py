# SPDX-License-Identifier: Apache-2.0
"""In place of LAMMPS: a made-up fluid at walls, with layers that grow as it gets cold and dense, and noise as a short
run has it. standin.py T RHO WALL HEIGHT SEED STEPS"""

import math
import random
import sys

T, RHO, WALL, HEIGHT = (float(word) for word in sys.argv[1:5])
SEED, STEPS = int(sys.argv[5]), int(sys.argv[6])


def layers(depth):
    """What one wall does."""
    return RHO**3 * 6 / T**0.7 * math.exp(-depth) * math.cos(2 * math.pi * (depth - 0.9) / 1.02)


draw, noise = random.Random(SEED), 0.01 * (20000 * RHO / STEPS) ** 0.5
with open("profile.txt", "w") as file:
    for i in range(20):
        z = 2.5 * (i + 0.5) / 20
        stuck = 0.8 * WALL / T * math.exp(-(((z - 0.95) / 0.25) ** 2))
        edge = 1 / (1 + math.exp((0.75 - z) / 0.07))
        file.write(f"{RHO * (1 + layers(z) + layers(HEIGHT - z) + stuck) * edge + draw.gauss(0, noise):.6f}\n")
