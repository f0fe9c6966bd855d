#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The claim of packages/planner/tests/nonsense.py for `spotnik backtest`. Usage: nonsense.py SPOTNIK [all]."""
import os
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../packages/planner/tests"))
import nonsense  # noqa: E402
from nonsense import COUNTS, FILES, NUMBERS, TIMES, WORDS  # noqa: E402

BACKTEST = ("backtest", "--windows", "{windows}", "--policy", "uniform", "--work", "2h", "--deadline", "4h", "--changeover", "6m")
CALIBRATION = ("backtest", "--calibration", "--windows", "{windows}", "--work", "2h", "--deadline", "4h", "--runs", "20")

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
)

if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="spotnik-nonsense-") as scratch:
        nonsense.main(scratch, CALLS, TOGETHER)
    print("ok")
