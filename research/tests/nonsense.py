#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The claim of packages/planner/tests/nonsense.py for `spotnik backtest` and `spotnik model`. Usage: nonsense.py SPOTNIK [all]."""
import os
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../packages/planner/tests"))
import nonsense  # noqa: E402
from nonsense import COUNTS, FILES, NUMBERS, OTHERS, TIMES, WORDS  # noqa: E402

BACKTEST = ("backtest", "--windows", "{windows}", "--policy", "uniform", "--work", "2h", "--deadline", "4h", "--changeover", "6m")
CALIBRATION = ("backtest", "--calibration", "--windows", "{windows}", "--work", "2h", "--deadline", "4h", "--runs", "20")
SPEED, INTERVAL = ("model", "speed", "--fit", "{speeds}"), ("model", "interval", "--job", "5h", "--write", "1m")
NOISE, LIVES = ("model", "noise", "--fit", "{batches}"), ("model", "lifetime", "--fit", "{lives}")
SPOTDNN = ("model", "spotdnn", "--constants", "{constants}", "--loss", "0.9", "--deadline", "1900")

CALLS = (
    (BACKTEST, "--windows", FILES), (BACKTEST, "--spot-prices", FILES), (BACKTEST, "--policy", (*WORDS, "Uniform")),
    (BACKTEST, "--work", (*TIMES, "0h", "5h")), (BACKTEST, "--deadline", (*TIMES, "0h", "1h", "9000h")), (BACKTEST, "--changeover", (*TIMES, "3h")),
    (BACKTEST, "--stride", (*TIMES, "0s")), (BACKTEST, "--notice", TIMES), (BACKTEST, "--price-ratio", (*NUMBERS, "0")), (BACKTEST, "--pair-speed", (*NUMBERS, "0.5", "3")),
    ((*BACKTEST, "--policy", "sliced"), "--slices", (*COUNTS, "0")), ((*BACKTEST, "--spot-prices", "{history}"), "--cap-usd", NUMBERS),
    ((*BACKTEST, "--spot-prices", "{history}"), "--on-demand-usd", (*NUMBERS, "0")), ((*BACKTEST, "--policy", "spotnik"), "--learn-from", FILES),
    *((("backtest", "--place", "{windows}", *BACKTEST[3:], "--spot-usd", "1"), option, NUMBERS) for option in ("--state-gb", "--egress-usd", "--spot-usd")),
    (("backtest", "--place", "{windows}", *BACKTEST[3:]), "--place", FILES), (("backtest", "--place", "{windows}", *BACKTEST[3:]), "--move-time", ("", "nan", "inf", "-1", "-1h", "1y", "abc")),
    (CALIBRATION, "--nodes", (*COUNTS, "0")), (CALIBRATION, "--runs", (*COUNTS, "0")), (CALIBRATION, "--regimes", (*COUNTS, "0", "999")), (CALIBRATION, "--block", (*TIMES, "0s")),
    (CALIBRATION, "--past", TIMES), (CALIBRATION, "--plot", ("", "/nowhere/at/all.svg")), (CALIBRATION, "--learn-from", FILES), (CALIBRATION, "--stride", (*TIMES, "0s")),
    (SPEED, "--fit", FILES), (SPEED, "--predict", FILES), (SPEED, "--sharpness", (*NUMBERS, "0")), (NOISE, "--fit", FILES), (NOISE, "--usd-per-h", NUMBERS),
    (LIVES, "--fit", FILES), (LIVES, "--predict", FILES), (LIVES, "--cap", (*TIMES, "0h")), (LIVES, "--at", (*OTHERS, "1,", ",1", "1,,2", "1,-2")), (LIVES, "--by", WORDS[:-1]),
    *((("model", model), "--fit", FILES) for model in ("checkpoint-time", "remaining", "startup", "spotdnn")),
    (INTERVAL, "--job", (*TIMES, "0s")), (INTERVAL, "--write", (*TIMES, "0s")), (INTERVAL, "--mttf", (*TIMES, "0s")),
    (INTERVAL, "--bathtub", (*NUMBERS, "1", "1,2,3", "1,2,3,4,5", "1,-2,3,4", "0,0,0,0", "nan,1,1,24", "1,1,1,0")),
    (("model", "coefficient", "--counts", "7,3"), "--speeds", (*OTHERS, "3", "3,1,2", "3,", "0,0", "3,-1")),
    (("model", "coefficient", "--speeds", "3,1"), "--counts", (*OTHERS, "7", "7,3,1", "7,", "-7,3", "0,0", "1.5,2")),
    (SPOTDNN, "--constants", FILES), (SPOTDNN, "--prices", FILES), (SPOTDNN, "--loss", (*NUMBERS, "0")), (SPOTDNN, "--deadline", ("", "nan", "inf", "-1", "0", "abc")),
    (SPOTDNN, "--quota", ("", "nan", "-1", "1e999", "abc", "1.5")), (SPOTDNN, "--search", WORDS),
)

TOGETHER = (
    ((*BACKTEST, "--slices", "4"), "sliced"), ((*BACKTEST, "--learn-from", "{windows}"), "spotnik"), ((*BACKTEST, "--cap-usd", "1"), "--spot-prices"), ((*BACKTEST, "--on-demand-usd", "1"), "--spot-prices"),
    ((*BACKTEST, "--spot-prices", "{history}", "--on-demand-usd", "1", "--price-ratio", "3"), "both"), ((*BACKTEST, "--unknown"), "--calibration"), ((*BACKTEST, "--nodes", "3"), "--calibration"),
    ((*BACKTEST, "--json"), "--calibration"), ((*BACKTEST, "--move-time", "3"), "--place"), ((*BACKTEST, "--egress-usd", "3"), "--place"), ((*BACKTEST, "--state-gb", "3"), "--place"),
    *(((*BACKTEST[:4], "spotnik", *BACKTEST[5:], "--never-dearer", "0.02", "--pair-speed", speed), "one place") for speed in ("0", "1")),
    (("backtest", "--place", "{windows}", "--policy", "spotnik", *BACKTEST[5:], "--never-dearer", "0.02"), "one place"),
    ((*BACKTEST, "--place", "{windows}"), "one of both"), ((*BACKTEST, "word"), "what is 'word'"), (BACKTEST[:3], "--policy"), (BACKTEST[:5], "--work"), (("backtest",), "--windows"),
    (("backtest", "--learn"), "a trace"), (("backtest", "--learn", "--policy", "uniform", "{windows}"), "--learn"), ((*CALIBRATION, "--policy", "uniform"), "--calibration"),
    (("backtest", "--calibration"), "--windows"), (CALIBRATION[:6], "--deadline"), ((*BACKTEST[:-4], "--deadline", "2h", "--changeover", "6m"), "nearest feasible"),
    (("model",), "usage"), (("model", "nonsense"), "usage"), (("model", "speed"), "--fit"), ((*SPEED, "word"), "word"), ((*LIVES, "--sharpness", "2"), "--sharpness"),
    ((*SPEED, "--cap", "2h"), "--cap"), ((*SPEED, "--by", "model"), "--by"), ((*LIVES, "--leave-one-out"), "--leave-one-out"), ((*LIVES, "--target", "x"), "--target"), ((*SPEED, "--usd-per-h", "3"), "--usd-per-h"),
    ((*INTERVAL, "--mttf", "1h", "--bathtub", "0.4,1,20,24"), "one of"), (("model", "interval", "--write", "1m"), "--job"), (("model", "spotdnn"), "--constants"), (SPOTDNN[:4], "--loss"),
)

MORE = {
    "speeds": ("speeds.csv", "model,workers,speed_steps_per_s\n" + "".join(f"m,{n},{30 * n / (1 + .05 * n):.3f}\n" for n in (1, 2, 4, 8))),
    "batches": ("batches.csv", "model,global_batch_B,workers_K,time_h_observed\n"
                + "".join(f"m,{b},{k},{40 / k + b / 300:.3f}\n" for b in (256, 512, 1024) for k in (4, 8, 16))),
    "lives": ("lives.csv", "lifetime_h,end_kind\n" + "".join(f"{1 + i % 9},preempted\n" for i in range(40))),
    "constants": ("constants.json", {"model": {"gamma1": 300, "gamma2": -0.01, "gamma3": 900, "gamma5": 0.3, "alpha1": 0.1, "beta1": 0.1, "gamma4": 0,
                                               "parameters_mb": 7, "request_mb_per_s": 100, "server_mb_per_s": 800, "pcie_mb_per_s": 1000},
                                     "instances": [{"instance": "p2.xlarge", "speed_img_per_s": 500, "batch_per_gpu": 128, "spot_usd_per_h": 0.3, "quota": 4}]}),
}

if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="spotnik-nonsense-") as scratch:
        nonsense.main(scratch, CALLS, TOGETHER, [base for base, *_ in CALLS if "--fit" in base] + [INTERVAL, SPOTDNN], MORE)
    print("ok")
