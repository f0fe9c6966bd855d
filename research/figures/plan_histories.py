#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Policies on price histories: a table, which plan_results.py prints too. Usage: SPOTNIK_DATA=... research/figures/plan_histories.py SPOTNIK
With --sweep: other places and jobs. With --bound SHARE...: what never being dearer than Uniform Progress by that share costs (`none`: no
bound), on 40 rows."""
import itertools
import json
import os
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "tests")]
import acceptance as a  # noqa: E402

PLACES = ("availability-1-node/aws-02-15-2023/us-east-1c", "availability-1-node/aws-02-15-2023/us-west-2c", "preemption-1-node/aws-04-22-2023/us-east-1c")
JOBS = (("12h", "16h", "6m"), ("24h", "40h", "20m"), ("20h", "22h", "12m"))
TITLE = "## Policies on price histories"


def section(p, out, _folder):
    """Appends the section to the list of lines `out`."""
    out += [TITLE, "", """Four histories of 2015 (us-east-1a), with spikes of ten times the on-demand price; 48 h of work, 60 h, changeover 12 min; costs in
hours of the mean spot price. Availability: always (74 windows), or the traces of us-west-2a k80_8 and us-west-2b v100_1 (26 windows). `capped`: spot is
taken back above the on-demand price. Ours is capped always. `bound`: no policy can be cheaper, however many machines it holds.
""".replace("\n", " ").strip(), ""]
    rows = ["| history | availability | uniform | uniform, capped | ours | offline | bound | ours against uniform | against capped |",
            "|---|---|---|---|---|---|---|---|---|"]
    with tempfile.TemporaryDirectory() as folder:
        always = os.path.join(folder, "always.json")
        with open(always, "w") as trace:
            json.dump({"metadata": {"gap_seconds": 600}, "data": [1] * 144 * 150}, trace)
        flapping = [p.path("spot-traces", "availability-1-node", "aws-10-26-2022", f"us-west-{zone}.json.gz")
                    for zone in ("2a_k80_8", "2b_v100_1")]
        for name, usd, shown in a.HISTORIES:
            for kind, files in (("always", [always]), ("traces", flapping)):
                costs = a.history(p, name, usd, files)
                rows.append("| {} | {} | {} | {:+.1f} % | {:+.1f} % |".format(
                    f"{shown} (${usd})", kind, " | ".join(f"{costs[k]:.2f}" for k in a.HISTORY_POLICIES),
                    100 * (costs["spotnik"] / costs["uniform"] - 1), 100 * (costs["spotnik"] / costs["capped"] - 1)))
    out += [*rows, ""]
    return out


def sweep(p):
    """Other places and jobs, some 15 min of them: what ours costs against uniform, and against it capped, in %."""
    rows = []
    for (name, usd, _), place, (work, deadline, changeover) in itertools.product(a.HISTORIES, PLACES, JOBS):
        costs = {}
        for policy, more in (("uniform", ()), ("capped", ("--cap-usd", usd)), ("spotnik", ())):
            got = p.json("backtest", "--windows", p.path("spot-traces", place + "_v100_1.json.gz"), "--policy", policy.replace("capped", "uniform"), "--work",
                         work, "--deadline", deadline, "--changeover", changeover, "--stride", "97h" if "02-15" in place else "40h", "--spot-prices",
                         p.path("prices", f"spotprice2015_us-east-1a_{name}.csv.gz"), "--on-demand-usd", usd, *more)
            costs[policy] = got["cost"]
        rows.append([100 * (costs["spotnik"] / costs[policy] - 1) for policy in ("uniform", "capped")])
        print(f"{name} {place} {work} of {deadline}: {rows[-1][0]:+.1f} %, capped {rows[-1][1]:+.1f} %", flush=True)
    print(f"worst {max(r[0] for r in rows):+.1f} %, capped {max(r[1] for r in rows):+.1f} %, of {len(rows)}")


BOUND_PLACES = ("availability-1-node/aws-10-26-2022/us-west-2a_k80_8", "availability-1-node/aws-10-26-2022/us-west-2b_v100_1",
                "availability-1-node/aws-02-15-2023/us-east-1c_v100_1", "availability-1-node/aws-02-15-2023/us-east-2b_v100_1")
BOUND_JOBS = (("48h", "60h", "12m"), ("12h", "16h", "12m"))


def row_costs(p, windows, prices, job, shares):
    """By policy: Uniform Progress as published, with a cap, and ours under each bound."""
    costs = {}
    kinds = [("uniform", "uniform", ()), ("capped", "uniform", ("--cap-usd", prices[1])), *((share, "spotnik", ("--never-dearer", share)) for share in shares)]
    for kind, policy, more in kinds:
        got = p.json("backtest", "--windows", windows, "--policy", policy, "--work", job[0], "--deadline", job[1], "--changeover", job[2], "--stride", "97h",
                     "--spot-prices", p.path("prices", f"spotprice2015_us-east-1a_{prices[0]}.csv.gz"), "--on-demand-usd", prices[1], *more)
        assert got["missed_deadlines"] == 0, (kind, got)
        costs[kind] = got["cost"]
    return costs


def bounds(p, shares):
    """What each bound costs: a line a bound, over histories, places and jobs."""
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        always = os.path.join(folder, "always.json")
        with open(always, "w") as trace:
            json.dump({"metadata": {"gap_seconds": 600}, "data": [1] * 144 * 150}, trace)
        for (name, usd, _), place, job in itertools.product(a.HISTORIES, ("always", *BOUND_PLACES), BOUND_JOBS):
            windows = always if place == "always" else p.path("spot-traces", place + ".json.gz")
            rows.append(row_costs(p, windows, (name, usd), job, shares))
            print(name, place, job[0], " ".join(f"{share} {100 * (rows[-1][share] / rows[-1]['uniform'] - 1):+.2f} {100 * (rows[-1][share] / rows[-1]['capped'] - 1):+.2f}"
                                                for share in shares), file=sys.stderr, flush=True)
    print("| bound | rows | against uniform: mean | worst | against capped: mean | worst |\n|---|---|---|---|---|---|")
    for share in shares:
        plain, capped = ([100 * (row[share] / row[base] - 1) for row in rows] for base in ("uniform", "capped"))
        print(f"| {share} | {len(rows)} | {sum(plain) / len(rows):+.1f} % | {max(plain):+.1f} % | {sum(capped) / len(rows):+.1f} % | {max(capped):+.1f} % |")


if __name__ == "__main__":
    if sys.argv[2:3] == ["--bound"]:
        bounds(a.Planner(sys.argv[1], os.environ["SPOTNIK_DATA"]), sys.argv[3:])
        sys.exit()
    if sys.argv[2:] == ["--sweep"]:
        sweep(a.Planner(sys.argv[1], os.environ["SPOTNIK_DATA"]))
        sys.exit()
    print("\n".join(section(a.Planner(sys.argv[1], os.environ["SPOTNIK_DATA"]), [], "")))
