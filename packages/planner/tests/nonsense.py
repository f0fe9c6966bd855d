#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Claim: nonsense in any option of the planner's commands is refused: with status 1 or 2, with a sentence that names the option, the
file or the word, and with nothing on stdout. None crashes, hangs, or is passed over in silence. Four values of each
option, which its name draws; with `all`, every value. Usage: nonsense.py SPOTNIK [all]."""
import json
import os
import random
import subprocess
import sys
import tempfile
import time

NUMBERS = ("", " ", "nan", "-nan", "inf", "-inf", "-1", "1e999", "-1e999", "0x10", "1,5", "--", "abc", "9" * 400, "1 2", "½", "1e")
OTHERS = tuple(text for text in NUMBERS if text != "1,5")  # a list may say that
COUNTS = (*NUMBERS, "1.5", "4294967296", "1e18")
TIMES = ("", " ", "nan", "nanh", "inf", "infh", "-1h", "1", "1y", "1e5h", "1h30m", "h", "1,5h", "9" * 400 + "h", "--", "%s%n")
FILES = ("", "/nowhere/at/all", "/dev/null", "/", "{garbage}", "{zeros}", "{list}", "{brackets}", "{binary}")
WORDS = ("", " ", "nonsense", "--", "\x01", "é" * 3000)
PLAN = ("plan", "--target", "epochs=1", "--deadline", "40h", "--runs", "20")
FLEET = ("fleet", "--engine", "exec:echo 2", "--once", "--folder", "{folder}")

# the call that is well, its option, the values that are not
CALLS = (
    (PLAN, "--target", (*WORDS, "epochs", "epochs=", *(f"{kind}={n}" for kind in ("epochs", "steps") for n in (*NUMBERS, "0")), "samples=-3", "epoch=3")),
    (PLAN, "--deadline", (*TIMES, "0s", "0h")), (PLAN, "--budget", (*NUMBERS, "0")), (PLAN, "--confidence", (*NUMBERS, "0", "1", "95", "95%")),
    (PLAN, "--machines", (*COUNTS, "0", "1025")), (PLAN, "--runs", (*COUNTS, "0", "19")), (PLAN, "--seed", (*NUMBERS, "1.5", "1e16")),
    (PLAN, "--losses-per-h", (*NUMBERS, "1e4")), (PLAN, "--gpu-memory", (*NUMBERS, "1e6")), (PLAN, "--storage-usd", (*NUMBERS, "1e9")),
    (PLAN, "--only", (*WORDS, "Spot", "spot,on-demand")), (PLAN, "-o", (*WORDS, "JSON", "yaml")),
    *((PLAN, option, FILES) for option in ("--profile", "--prices", "--advisor", "--lifetimes", "--churn", "--learn-from", "--from-status", "--history")),
    *((PLAN, option, WORDS) for option in ("--cloud", "--region", "--zone", "--type", "--accelerator", "--availability", "--quota", "--data")),
    (PLAN, "--history", ("p3.2xlarge", "p3.2xlarge=", "=x", "p3.2xlarge=/nowhere", "nonsense={history}")),
    (PLAN, "--availability", ("p3.2xlarge", "p3.2xlarge=", "={windows}", "p3.2xlarge=/nowhere", "nonsense={windows}", "p3.2xlarge@moon={windows}", "a" * 500 + "={windows}")),
    (PLAN, "--quota", ("p3.*", "p3.*=", *(f"p3.*={n}" for n in COUNTS), "=3", "nonsense=3")),
    (PLAN, "--data", ("5", "@", "5@", "@us-east-1", *(f"{n}@us-east-1" for n in NUMBERS))),
    (PLAN, "--follow", (*TIMES, "0s")), (PLAN, "--prices-age", TIMES), (PLAN, "--cap", TIMES),
    ((*PLAN, "--data", "5@us-east-1"), "--egress-usd", (*NUMBERS, "1e9")), ((*PLAN, "--churn", "{windows}"), "--speedup", (*NUMBERS, "0")),
    *(((*PLAN, "--from-status", "{status}", *running), "--elapsed", (*TIMES, "40h", "1000d")) for running in (("--running", "p3.2xlarge=spot"),)),
    ((*PLAN, "--from-status", "{status}", "--running", "p3.2xlarge=spot"), "--spent", NUMBERS),
    ((*PLAN, "--from-status", "{status}", "--running", "p3.2xlarge=spot"), "--clock", (*NUMBERS, "0")),
    ((*PLAN, "--from-status", "{status}", "--running", "p3.2xlarge=spot"), "--batch", (*NUMBERS, "0")),
    ((*PLAN, "--from-status", "{status}"), "--running", (*WORDS, "p3.2xlarge", "p3.2xlarge=", "p3.2xlarge=maybe", "=spot", "nonsense=spot", "p3.2xlarge@moon=spot", "p3.2xlarge=spot:",
                                                         *(f"p3.2xlarge=spot:{n}" for n in ("3", *COUNTS)), "p3.2xlarge=spot:2/1", "p3.2xlarge=spot:2/1e9", "p3.2xlarge=spot:2/nan")),
    (("prices", "update", "--into", "{kept}"), "--from", (*FILES, "ftp://x/y", "http://example.org/x", "gopher:")), (("prices", "update"), "--cloud", (*WORDS, "AWS")),
    (("prices", "update"), "--mirror", (*WORDS, "/tmp", "http://example.org")), (("prices", "update", "--mirror", "file:///nowhere"), "--timeout", (*TIMES, "0s", "0.5s", "9000h")),
    ((*FLEET, "--machines", "2"), "--engine", (*WORDS, "exec:", "Slurm")), (FLEET, "--machines", (*COUNTS, "0")), (FLEET, "--plan", FILES), ((*FLEET, "--machines", "2"), "--folder", ("", "/nowhere/at/all", "{garbage}")),
    ((*FLEET, "--machines", "2"), "--name", ("", " ", "A", "a/b", "\x01")), ((*FLEET, "--machines", "2"), "--every", (*TIMES[:8], "0s")),
    ((*FLEET, "--plan", "{two}", "--replan", "true"), "--replan-every", (*TIMES[:8], "0s")),
    (("prices", "update", "--from", "{vms}"), "--into", ("", "/nowhere/at/all.csv", "/")),
)

# calls whose options contradict each other, or say nothing, and a word of the answer
TOGETHER = (
    ((*PLAN, "--elapsed", "1h"), "--from-status"), ((*PLAN, "--clock", "2"), "--from-status"),
    ((*PLAN, "--running", "p3.2xlarge=spot"), "--from-status"), ((*PLAN, "--speedup", "2"), "--churn"), ((*PLAN, "--churn", "{windows}", "--losses-per-h", "1"), "leave"),
    ((*PLAN, "--churn", "{windows}", "--availability", "p3.2xlarge={windows}"), "leave"), ((*PLAN, "--prices", "builtin", "--prices-age", "9d"), "leave one out"),
    ((*PLAN, "--egress-usd", "1"), "--data"), ((*PLAN, "--follow", "5m", "--only", "spot"), "--only"), (("plan", "explain", *PLAN[1:], "-o", "json"), "leave -o out"),
    ((*PLAN, "--from-status", "{handmade}", "--running", "p3.2xlarge=spot"), "made by hand"), ((*PLAN, "--from-status", "{handmade}", "--clock", "9"), "made by hand"),
    ((*PLAN, "6h"), "what is '6h'"), (("plan", "--deadline", "4h"), "--target"), (("plan", "--nonsense"), "--help"), ((*PLAN, "--region", "moon"), "--region"),
    ((*PLAN, "--prices", "builtin", "--prices", "{vms}"), "builtin"), ((*PLAN, "--only", "spot", "--only", "on-demand"), "--only"), ((*PLAN, "--", "x" * 100000), "too long"),
    (("prices",), "usage"), (("prices", "nonsense"), "usage"), (("prices", "show", "--cloud", "aws"), "of update"), (("prices", "show"), "prices update"),
    (("prices", "update", "--from", "{vms}", "--cloud", "aws"), "leave one out"), (("prices", "update", "--from", "{vms}", "--mirror", "file:///x"), "leave one out"),
    (("fleet",), "--engine"), (FLEET, "--plan"), ((*FLEET, "--machines", "2", "--plan", "{two}"), "one of both"), ((*FLEET, "--machines", "2", "--replan", "true"), "--plan"), ((*FLEET, "--machines", "2", "word"), "word"),
    ((*FLEET, "--machines", "2", "--replan-every", "1h"), "--replan"), ((*FLEET, "--machines", "2", "--every=abc"), "--every"),
)


def put_file(folder, name, text):
    path = os.path.join(folder, name)
    with open(path, "wb") as out:
        out.write(text if isinstance(text, bytes) else (text if isinstance(text, str) else json.dumps(text)).encode())
    return path


def files(folder):
    """Names in braces, and what they stand for."""
    def put(name, text):
        return put_file(folder, name, text)
    return {
        "garbage": put("garbage.csv", "a,b\n\"1,2\n3"), "zeros": put("zeros.json", b"\0" * 5000), "list": put("list.json", "[]"), "brackets": put("deep.json", "[" * 200000),
        "binary": put("binary.db", bytes(range(256)) * 40), "kept": os.path.join(folder, "kept.csv"), "folder": folder, "two": put("two", "2"),
        "windows": put("windows.json", {"metadata": {"gap_seconds": 600}, "data": ([1] * 30 + [0] * 12) * 20}),
        "history": put("history.csv", "timestamp_utc,spot_usd_per_h\n" + "".join(f"2024-01-{day:02d}T00:00:00Z,{0.2 + day / 90:.3f}\n" for day in range(1, 20))),
        "status": put("status.json", {"step_committed": 5, "size": 2, "uptime_s": 60, "elapsed_s": 60}),
        "handmade": put("handmade.json", {"epochs_done": 0.1, "machines": [{"instance": "p3.2xlarge", "capacity": "spot", "count": 2}]}),
        "vms": put("vms.csv", "instance_type,region,zone,accelerator,accelerator_count,vcpus,on_demand_usd_per_h,spot_usd_per_h\np3.2xlarge,us-east-1,,V100,1,8,3.06,0.92\n"),
    }


class Caller:
    def __init__(self, folder):
        self.files, self.calls, self.wrong, self.slowest = files(folder), 0, [], (0, ())
        self.env = {**os.environ, "SPOTNIK_PRICES": os.path.join(folder, "none.csv"), "SPOTNIK_PRICES_MIRROR": ""}

    def put(self, word):
        return word.format(**self.files) if "{" in word else word

    def call(self, words):
        began = time.monotonic()
        words = [self.put(word) for word in words]
        try:
            done = subprocess.run([sys.argv[1], *words], capture_output=True, text=True, timeout=120, env=self.env, errors="replace")
        except subprocess.TimeoutExpired:
            done = subprocess.CompletedProcess(words, "no end in 120 s", "", "")
        except ValueError:  # a NUL, say: no shell could pass it on
            done = subprocess.CompletedProcess(words, 2, "", " ".join(words))
        self.calls += 1
        self.slowest = max(self.slowest, (time.monotonic() - began, words))
        return done

    def refused(self, words, why, *others):
        done = self.call(words)
        said = (done.stdout if words[0] == "fleet" and not done.stderr else done.stderr).strip()
        bad = ("was taken" if done.returncode == 0 else f"ended with {done.returncode}" if done.returncode not in (1, 2)
               else "says nothing" if not said else "writes to stdout" if done.stdout and words[0] != "fleet" else f"does not say {why!r}" if why and not any(word and self.put(word) in said for word in (why, *others)) else None)
        if bad:
            self.wrong.append((bad, " ".join(word[:60] for word in words), said[-300:]))


def main(folder, calls, together, well=(), more=()):
    """`well`: calls that are tried without nonsense, too. `more`: files, by their names in braces."""
    caller, every = Caller(folder), len(sys.argv) > 2
    caller.files.update({key: put_file(folder, *what) for key, what in dict(more).items()})
    bases = {base for base, *_ in calls if base[0] not in ("model", "prices", "fleet")} | set(well)
    for base in sorted(bases):  # what is varied is well without the nonsense
        done = caller.call((*base, "--running", "p3.2xlarge=spot") if "--from-status" in base and "--running" not in base else base)
        assert done.returncode == 0, (base, done.stderr)
    for base, option, values in calls:
        name = option.strip("-")
        for value in values if every else random.Random(option + base[-1]).sample(values, min(4, len(values))):
            words = list(base)
            if option in words and option not in ("--place", "--running"):
                words[words.index(option) + 1] = value
            else:
                words += [option, value]
            caller.refused(words, name, value, value.partition("=")[2], *(("deadline",) if name == "elapsed" else ("spot price",) if name == "running" else ("fast",) if name == "pair-speed" else ()))
    for words, why in together:
        caller.refused(words, why)
    if every:
        print(*caller.wrong, sep="\n")
    print(f"{caller.calls} calls; the slowest took {caller.slowest[0]:.1f} s: {' '.join(caller.slowest[1])[:200]}")
    assert not caller.wrong, (len(caller.wrong), caller.wrong[:5])


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="spotnik-nonsense-") as scratch:
        main(scratch, CALLS, TOGETHER)
    print("ok")
