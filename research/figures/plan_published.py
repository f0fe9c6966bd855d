#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Which windows the printed hours are of (Can't Be Late, table 3). On the released windows every policy uses an hour less of
spot: not for accounting (the policies once more in whole ticks of 600 s, deadlines rounded to ticks), not for a policy read
wrongly (so does the bound that knows the future), not by the draw (others from the same starts). But the released windows
last 92 h, so that none starts in the last 92 h of the recording; a job of 60 h can start up to 60 h before its end. Used by
plan_results.py; needs nothing but the standard library."""
import math
import random
import statistics

TICK_S, WORK_S, DEADLINE_S, CHANGEOVER_S = 600.0, 48 * 3600.0, 60 * 3600.0, 720.0


def ticks_up(seconds):
    return math.ceil(seconds / TICK_S) * TICK_S


def wish(policy, machine, available, elapsed_s, left_s):
    """What the policy wants for the tick that begins, before the safety nets."""
    done_s = WORK_S - left_s
    if policy == "greedy":
        return "spot" if available else ""
    if machine == "on-demand" and (not available or (elapsed_s + 2 * CHANGEOVER_S) * WORK_S / DEADLINE_S >= done_s):
        return "on-demand"
    if available:
        return "spot"
    return "on-demand" if done_s < elapsed_s * WORK_S / DEADLINE_S else ""


def run(window, policy):
    """Hours of work on (on-demand, spot) in one window, a string of 0 (available) and 1 per tick."""
    machine, starting_s, left_s = "", 0.0, WORK_S
    hours = {"on-demand": 0.0, "spot": 0.0}
    tick = 0
    while left_s > 1e-3:
        available = tick < len(window) and window[tick] == "0"
        held = "" if machine == "spot" and not available else machine
        time_left_s = math.floor((DEADLINE_S - tick * TICK_S) / TICK_S) * TICK_S
        choice = wish(policy, held, available, tick * TICK_S, left_s)
        if ticks_up(left_s + 2 * CHANGEOVER_S) >= time_left_s and held != "spot":
            choice = "on-demand"
        if ticks_up(left_s + CHANGEOVER_S) >= time_left_s:
            choice = "spot" if held == "spot" and starting_s < 1e-3 else "on-demand"
        if choice and choice != held:
            starting_s = CHANGEOVER_S
        machine = choice
        if machine:
            work_s = min(max(TICK_S - starting_s, 0), left_s)
            starting_s = max(0.0, starting_s - TICK_S)
            hours[machine] += work_s / 3600
            left_s -= work_s
        tick += 1
    return hours["on-demand"], hours["spot"]


def in_ticks(windows, policy):
    """Means over all windows of all files."""
    runs = [run(window, policy) for file in windows for window in file]
    return tuple(statistics.fmean(hours) for hours in zip(*runs))


def redraw(traces, latest, policy, draws=2000):
    """(mean, deviation) of the mean on-demand hours over other draws of 300 windows that start in [0, latest]."""
    starts = range(0, latest + 1, 8)
    ticks = int(DEADLINE_S / TICK_S)
    each = [statistics.fmean(run(trace[s:s + ticks], policy)[0] for trace in traces) for s in starts]
    rng = random.Random(1)
    means = [statistics.fmean(rng.choices(each, k=300)) for _ in range(draws)]
    return statistics.fmean(means), statistics.stdev(means)


def against(got, want):
    return f"{got:.2f} ({100 * (got / want - 1):+.1f} %)"


def section(out, table, windows, traces, latest, ours, printed, whole):
    """ours: {policy: (on-demand h, spot h)} of `spotnik backtest` on the released windows; printed: the same, printed; whole:
    {which windows: the same, on windows from the whole recording}."""
    rows = []
    for policy, want in printed.items():
        ticks = in_ticks(windows, policy) if policy != "offline" else ours[policy]
        moved = "{:.2f} ± {:.2f}".format(*redraw(traces, latest, policy)) if policy != "offline" else ""
        rows.append([policy, *(against(*pair) for hours in (ours[policy], ticks) for pair in zip(hours, want)), *want, moved])
    out += ["### Against the printed hours", "", "On the released windows:", ""]
    table(out, ["policy", "on-demand h", "spot h", "on-demand h, in ticks", "spot h, in ticks", "printed on-demand h",
                "printed spot h", "on-demand h of other 300 windows"], rows)
    out += [f"The offline optimum has no policy and no accounting to read differently, and is off by the same hour. The "
            f"released windows last 92 h and start at ticks 0 to {latest}: none starts in the last 92 h of what was recorded. "
            f"Windows of 60 h, which is all that the job needs, from the whole of it (and from recordings of 13 and of 14 "
            f"days, since the traces are described as two weeks, or 13 days):", ""]
    table(out, ["windows", *(f"{policy} {kind} h" for policy in printed for kind in ("on-demand", "spot"))],
          [[name, *(against(*pair) for policy, want in printed.items() for pair in zip(hours[policy], want))]
           for name, hours in whole.items()])
