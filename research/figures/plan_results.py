#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The planner against published data: prints tables, and draws plan_*.svg in FOLDER.
Usage: SPOTNIK_DATA=... research/figures/plan_results.py SPOTNIK [FOLDER, default build/results [PART...]]. Runs the checks of research/tests/acceptance.py,
and cuts the raw traces of October 2022 into the windows that the released files leave out: machines whose windows nobody tuned on."""
import csv
import gzip
import json
import os
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "tests"), os.path.join(HERE, "..", "..", "bench")]
import acceptance as a  # noqa: E402
import pictures  # noqa: E402
import plan_calibration  # noqa: E402
import plan_forms  # noqa: E402
import plan_histories  # noqa: E402
import plan_places  # noqa: E402

POLICIES = ("greedy", "sliced", "uniform", "dp", "overlap", "spotnik", "offline")
COLOURS = ("#1f5fbf", "#c0392b", "#0a7d32", "#8e44ad", "#e08a00", "#555555", "#00a0a0")


def table(out, head, rows):
    out.append("| " + " | ".join(head) + " |")
    out.append("|" + "---|" * len(head))
    out.extend("| " + " | ".join(str(cell) for cell in row) + " |" for row in rows)
    out.append("")


def plot(path, title, x_label, y_label, series, x_most, y_most, lines=True):
    """series: {name: [(x, y), ...]}; both axes from zero."""
    figure, (axes,) = pictures.panels(1, 8.4, 4.4)
    if lines:
        pictures.lines(axes, series, x_label, y_label, marks=False)
    else:
        axes.plot([0, x_most], [0, x_most], color="#5a6570", linestyle=":", linewidth=1.2, label="exact")
        pictures.points(axes, series, x_label, y_label)
    axes.set_xlim(0, x_most)
    axes.set_ylim(0, y_most)
    axes.set_title(title)
    pictures.legend(figure, axes)
    pictures.save(figure, path)


def plot_files(path, title, y_label, names, series):
    """Files have no order: a mark for each policy, and no lines."""
    figure, (axes,) = pictures.panels(1, 10, 4.6)
    pictures.categories(axes, names, series, y_label)
    axes.set_ylim(bottom=0)
    axes.set_title(title)
    pictures.legend(figure, axes)
    pictures.save(figure, path)


def raw_trace(p, zone):
    """The whole trace of October 2022 of a zone, 0: available."""
    name = p.path("spot-traces", "availability-1-node", "aws-10-26-2022", f"us-west-{zone}.json.gz")
    with gzip.open(name, "rt") as source:
        return "".join("0" if n >= 1 else "1" for n in json.load(source)["data"])


def other_windows(p, folder):
    """The released windows start at the same ticks in every zone: found in the K80 files, cut out of the V100 traces."""
    known = {}
    for zone in ("2a_k80_1", "2a_k80_8", "2b_k80_1", "2b_k80_8"):
        with gzip.open(p.path("cant-be-late", f"us-west-{zone}_overhead0.20.json.gz"), "rt") as source:
            known[zone] = (raw_trace(p, zone), json.load(source)["traces_1_means_UNAVAILABLE"])
    starts = []
    for i in range(300):
        length = len(known["2a_k80_1"][1][i])
        places = [s for s in range(len(known["2a_k80_1"][0]) - length + 1)
                  if all(text.startswith(windows[i], s) for text, windows in known.values())]
        assert len(places) == 1, (i, places)
        starts.append((places[0], length))
    assert max(sum(start) for start in starts) == a.RECORDED_TICKS
    files = []
    for zone in ("2a_v100_1", "2a_v100_8", "2b_v100_1", "2b_v100_8"):
        text = raw_trace(p, zone)
        files.append(os.path.join(folder, f"us-west-{zone}.json"))
        with open(files[-1], "w") as out:
            json.dump({"metadata_of_last": {"gap_seconds": 600},
                       "traces_1_means_UNAVAILABLE": [text[s:s + n] for s, n in starts]}, out)
    return files


def backtest(p, policy, path, *options):
    """`overlap` is our policy when two machines together are no faster than one: the old one works on, no more."""
    if policy == "overlap":
        return a.backtest(p, "spotnik", [path], "--pair-speed", "1", *options)
    return a.backtest(p, policy, [path], *options)


def pair_speeds(p, groups, uniform, out):
    """How much of the gain hangs on how well two machines work together."""
    rows = []
    for speed in ("1", "1.5", "1.8", "2"):
        row = [speed]
        for name, paths in groups.items():
            each = [a.backtest(p, "spotnik", [path], "--pair-speed", speed) for path in paths]
            saved = 1 - sum(r["cost"] for r in each) / sum(uniform[name])
            row += [f"{100 * saved:.1f} %", sum(r["missed_deadlines"] for r in each)]
        rows.append(row)
    out.append("Our policy against Uniform Progress, by how fast a spot and an on-demand machine are together (in machines):\n")
    table(out, ["pair speed", *(word for name in groups for word in (f"cheaper, {name}", "missed"))], rows)


def backtests(p, out, folder):
    groups = {"4 released K80 files": a.window_files(p)}
    with tempfile.TemporaryDirectory() as temporary:
        groups["4 V100 files, rebuilt"] = other_windows(p, temporary)
        rows, files, cost = [], [], {}
        for name, paths in groups.items():
            for policy in POLICIES:
                each = [backtest(p, policy, path) for path in paths]
                cost[name, policy] = [r["cost"] for r in each]
                mean = {k: sum(r[k] for r in each) / len(each) for k in
                        ("on_demand_hours", "spot_hours", "cost", "cost_of_work_only")}
                rows.append([name, policy, f"{mean['on_demand_hours']:.2f}", f"{mean['spot_hours']:.2f}",
                             f"{mean['cost']:.2f}", f"{mean['cost_of_work_only']:.2f}",
                             f"{100 * (1 - mean['cost'] * len(each) / sum(cost.get((name, 'uniform'), [0]))):.1f} %"
                             if (name, "uniform") in cost else "",
                             sum(r["missed_deadlines"] for r in each)])
            for i, path in enumerate(paths):
                files.append([os.path.basename(path).split("_overhead")[0].replace(".json", "")]
                             + [f"{cost[name, policy][i]:.2f}" for policy in POLICIES]
                             + [f"{100 * (1 - cost[name, 'spotnik'][i] / cost[name, 'uniform'][i]):.1f} %"])
        shown = []
        pair_speeds(p, groups, {name: cost[name, "uniform"] for name in groups}, shown)
    out += ["## Spot or on-demand: 8 files x 300 windows, 48 h of work, 60 h, changeover 0.2 h, price ratio 3.33", ""]
    table(out, ["windows", "policy", "on-demand h", "spot h", "cost (spot-hours)", "cost of work only",
                "cheaper than uniform", "missed"], rows)
    table(out, ["file", *POLICIES, "spotnik cheaper than uniform"], files)
    out += shown
    overall = {policy: sum(sum(cost[name, policy]) for name in groups) / 8 for policy in POLICIES}
    out.append("Over all eight: " + ", ".join(f"{k} {v:.2f}" for k, v in overall.items())
               + f"; spotnik {100 * (1 - overall['spotnik'] / overall['uniform']):.1f} % and dp "
               f"{100 * (1 - overall['dp'] / overall['uniform']):.1f} % cheaper than uniform.\n")
    plot_files(os.path.join(folder, "plan_policies.svg"), "Cost of 48 h of work in 60 h, by file of spot windows", "hours of the spot price",
               [row[0].removeprefix("us-west-").replace("_", "\n", 1).replace("_", " x") for row in files],
               {policy: [value for name in groups for value in cost[name, policy]] for policy in POLICIES})


def speeds(p, out, folder):
    rows = a.speed(p)
    left_out = a.speed(p, "--leave-one-out")
    series = sorted({row["model"] for row in rows})
    out += ["## Cluster speed, K80, calibrated on 2 and 8 workers", ""]
    table(out, ["series", "MAPE on 1, 3-7 (p = 6)", "p chosen on the other series"],
          [[s, f"{a.mape([r for r in rows if r['model'] == s]):.2f} %",
            f"{a.mape([r for r in left_out if r['model'] == s]):.2f} %"] for s in series]
          + [["all", f"{a.mape(rows):.2f} %", f"{a.mape(left_out):.2f} %"]])
    plot(os.path.join(folder, "plan_speed.svg"), "Cluster speed, predicted from 2 and 8 workers", "measured steps/s",
         "predicted steps/s", {s: [(float(r["speed_steps_per_s"]), float(r["predicted_speed_steps_per_s"]))
                                   for r in rows if r["model"] == s] for s in series}, 80, 80, lines=False)


def rows_of(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def scavenger(p, out, folder):
    rows = a.scavenger(p)
    errors = sorted(abs(float(r["error_pct"])) for r in rows)
    every = a.mape(p.csv("model", "noise", "--fit", p.path("scavenger", "scavenger_fig10_resnet18.csv")))
    out += ["## Scavenger, ResNet-18, from the four extremes", ""]
    table(out, ["B", "K", "hours", "predicted", "error %", "cost"],
          [[r["global_batch_B"], r["workers_K"], r["time_h_observed"], r["predicted_time_h"], r["error_pct"],
            r["predicted_cost_usd"]] for r in rows])
    out.append(f"MAPE {a.mape(rows):.2f} %, median {(errors[5] + errors[6]) / 2:.2f} %, worst {errors[-1]:.2f} %; fitted "
               f"to all sixteen rows the same form is {every:.2f} % off.")
    observed = {(float(r["global_batch_B"]), float(r["workers_K"])): float(r["time_h_observed"])
                for r in rows_of(p.path("scavenger", "scavenger_fig10_resnet18.csv"))}
    out += [f"The paper's own form has epochs linear in B^-1/2 and an iteration linear in B and K. From the same four rows it is "
            f"{plan_forms.paper_mape(observed):.2f} % off (the paper prints 4 % for partial search). A surface through the four "
            f"corners still misses by {plan_forms.oracle_mape(observed):.2f} %, with inner levels fitted to the very rows it is "
            f"tested on.", ""]
    runs = [(r["global_batch_B"], float(r["epochs_to_target"]))
            for r in rows_of(p.path("scavenger", "scavenger_fig8_noise_epochs_resnet18.csv"))]
    scatter = plan_forms.epochs_scatter(runs)
    exact = plan_forms.exact_form_mapes(observed, scatter)
    out += [f"Runs with the same batch need epochs that differ by {100 * scatter:.1f} % (deviation, figure 8). With that "
            f"scatter in all sixteen rows a form that is exactly right is {sum(exact) / len(exact):.2f} % off on average (5 % to 95 %: "
            f"{exact[len(exact) // 20]:.2f} to {exact[-len(exact) // 20]:.2f}), and within 2 % in "
            f"{100 * sum(x <= 2 for x in exact) / len(exact):.0f} % of all draws.", ""]
    fit = p.run("model", "noise", "--fit", p.path("scavenger", "scavenger_fig8_noise_epochs_resnet18.csv"))
    out += ["Noise and epochs: " + " ".join(fit.stderr.split()), ""]
    plot(os.path.join(folder, "plan_scavenger.svg"), "Scavenger, ResNet-18: hours, predicted from four extremes",
         "measured hours", "predicted hours", {
             f"K = {k}": [(float(r["time_h_observed"]), float(r["predicted_time_h"])) for r in rows
                          if r["workers_K"] == k] for k in ("8", "12", "16", "20")}, 14, 14, lines=False)


def lifetimes(p, out, folder):
    path = p.path("gcp-lifetimes", "gcp_preemption_lifetimes_2019.csv.gz")
    rows = a.lifetime(p)
    names = ["kaplan_meier", "censored_left_out", "bathtub", "bathtub_censored_left_out", "exponential", "weibull"]
    out += ["## Lifetimes, 1 442 GCE machines: share lost by an age", ""]
    table(out, ["hours", *names], [[r["hours"], *(r[n] for n in names)] for r in rows])
    done = p.run("model", "lifetime", "--fit", path, "--at", ",".join(str(h / 4) for h in range(1, 65)))
    more = p.run("model", "lifetime", "--fit", path, "--at", ",".join(str(h / 4) for h in range(65, 97)))
    out += ["    " + line for line in done.stderr.strip().split("\n")] + [""]
    curve = list(csv.DictReader(done.stdout.splitlines())) + list(csv.DictReader(more.stdout.splitlines()))
    plot(os.path.join(folder, "plan_lifetimes.svg"), "Share of machines lost", "hours", "share",
         {n.replace("_", " "): [(float(r["hours"]), float(r[n])) for r in curve] for n in names}, 24, 0.8)


def rest(p, out, folder):
    window, exact = a.spotdnn(p)
    out += ["## spotDNN, ResNet-110, loss 0.9 in 1 900 s", ""]
    table(out, ["search", "plan", "time s (observed 1 876)", "cost $", "CC", "candidates"],
          [[r["search"], r["plan"], f"{r['time']:.1f}", f"{r['cost']:.4f}", f"{r['convergence_coefficient']:.3f}",
            r["candidates"]] for r in (window, exact)])
    printed = [("3,1", "7,3", .93), ("3,1", "5,5", .90), ("3,1", "3,7", .87), ("1", "2", .71), ("1", "3", .82),
               ("1", "4", .87), ("0.64,0.36", "1,1", .51), ("0.64,0.36", "2,1", .75), ("1,2", "1,3", .83),
               ("1,2", "1,2", .59)]
    table(out, ["speeds", "counts", "CC", "printed"],
          [[s, c, p.run("model", "coefficient", "--speeds", s, "--counts", c).stdout.strip(), f"{v:.2f}"]
           for s, c, v in printed])
    authors, right = a.checkpoint(p)
    out += ["## Checkpoint programme: 5 h job, 1 min to write, published bathtub", ""]
    table(out, ["loss model", "intervals (min)", "expected (min)"],
          [["the authors' code", authors["intervals_min"], f"{authors['expected_min']:.1f}"],
           ["conditional, exact", right["intervals_min"], f"{right['expected_min']:.1f}"]])
    remaining, write = a.overheads(p)
    out.append(f"Remaining time: MAPE {a.mape(remaining):.2f} % (in sample); checkpoint time: {a.mape(write):.2f} %.\n")
    plan, seconds = a.catalog(p)
    out += ["## A plan over the whole catalog", "", f"{plan['looked_at']} fleets in {seconds:.2f} s.", ""]


PARTS = {"rest": rest, "speeds": speeds, "scavenger": scavenger, "lifetimes": lifetimes, "backtests": backtests, "histories": plan_histories.section,
         "places": plan_places.section, "calibration": plan_calibration.section}

if __name__ == "__main__":
    planner = a.Planner(sys.argv[1], os.environ["SPOTNIK_DATA"])
    results = sys.argv[2] if len(sys.argv) > 2 else "build/results"
    os.makedirs(results, exist_ok=True)
    for name in sys.argv[3:] or PARTS:
        found = []
        PARTS[name](planner, found, results)
        print("\n".join(found), flush=True)
