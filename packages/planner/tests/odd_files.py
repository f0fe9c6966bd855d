#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Claim: every file that the planner reads means the same however it was saved (line ends, byte-order mark, quotes, gzip), and a file
that is wrong is refused in one line that names it. No file, however it is damaged, ends a command by a signal or brings numbers that are
none. Usage: odd_files.py SPOTNIK [ROUNDS [SEED]]: ROUNDS of random damage, 120 unless said."""
import gzip
import json
import os
import random
import re
import subprocess
import sys
import tempfile

VMS = ("InstanceType,AcceleratorName,AcceleratorCount,vCPUs,MemoryGiB,Price,SpotPrice,Region,AvailabilityZone\n"
       "p3.2xlarge,V100,1,8,61,3.06,0.92,us-east-1,us-east-1a\np3.8xlarge,V100,4,32,244,12.24,3.7,us-east-1,us-east-1a\n")
HISTORY = "timestamp_utc,spot_usd_per_h\n" + "".join(f"2024-02-{28 + day}T{hour:02d}:00:00Z,{0.3 + 0.1 * (hour % 7)}\n" for day in (0, 1) for hour in range(24))
PROFILE = json.dumps({"name": "o", "devices": {"V100": {"samples_per_s": 300}}, "batches": [1024], "samples_per_epoch": 1e6, "gradient_mb": 10})
STATUS = json.dumps({"epochs_done": 1, "elapsed_s": 600, "spent_usd": 1, "machines": [{"instance": "p3.2xlarge", "capacity": "spot", "count": 2}]})
ADVISOR = json.dumps({"spot_advisor": {"us-east-1": {"Linux": {"p3.2xlarge": {"s": 70, "r": 1}, "p3.8xlarge": {"s": 60, "r": 2}}}}})
COUNTS = "hours,machines\n" + "".join(f"{3 * i},{(2, 0, 1)[i % 3]}\n" for i in range(12))
EVENTS = "0,add,a\n0,add,b\n7200000,remove,a\n21600000,add,c\n50000000,remove,b\n90000000,add,d\n"
SPEEDS = "model,workers,speed_steps_per_s\n" + "".join(f"m{m},{n},{m * n / (1 + .02 * n):.4f}\n" for m in (1, 2) for n in (1, 2, 4, 8))
LIVES = "lifetime_h,end_kind\n" + "".join(f"{1 + i % 5},{'preempted' if i % 3 else 'stopped'}\n" for i in range(30))
BACKTEST = ("--policy", "greedy", "--work", "2h", "--deadline", "4h", "--changeover", "6m", "--stride", "90m")
PLAN = ("plan", "--target", "epochs=9", "--deadline", "40h", "--only", "on-demand", "-o", "json")
CSV, JSON = "csv", "json"

# name -> (kind, text, command for a path)
READERS = {
    "events": ("events", EVENTS, lambda p: ("backtest", "--windows", p, *BACKTEST)),
    "counts": (CSV, COUNTS, lambda p: ("backtest", "--windows", p, *BACKTEST)),
    "availability": (JSON, json.dumps({"metadata": {"gap_seconds": 600}, "data": [1, 1, 0, 2, 1, 0] * 20}), lambda p: ("backtest", "--windows", p, *BACKTEST)),
    "letters": (JSON, json.dumps({"metadata_of_last": {"gap_seconds": 600}, "traces_1_means_UNAVAILABLE": ["001011" * 8, "0" * 40]}), lambda p: ("backtest", "--windows", p, *BACKTEST)),
    "bids": (CSV, HISTORY, lambda p: ("backtest", "--windows", p + ",bid=0.5", *BACKTEST)),
    "churn": ("events", EVENTS, lambda p: ("plan", "--prices", "builtin", "--target", "epochs=2", "--deadline", "9h", "--only", "spot", "--machines", "2", "--churn", p, "-o", "json")),
    "seen": (JSON, json.dumps({"metadata": {"gap_seconds": 600}, "data": [1, 1, 1, 0, 0, 2] * 40}), lambda p: ("plan", "--prices", "builtin", "--target", "epochs=2", "--deadline", "9h", "--only", "spot", "--machines", "2", "--availability", "p3.2xlarge=" + p, "-o", "json")),
    "history": (CSV, HISTORY, lambda p: ("plan", "--target", "epochs=2", "--deadline", "9h", "--prices", "builtin", "--type", "p3.2xlarge", "--history", "p3.2xlarge=" + p, "-o", "json")),
    "vms": (CSV, VMS, lambda p: (*PLAN, "--prices", p)),
    "update": (CSV, VMS, lambda p: ("prices", "update", "--from", p)),
    "advisor": (JSON, ADVISOR, lambda p: (*PLAN, "--prices", "builtin", "--advisor", p)),
    "profile": (JSON, PROFILE, lambda p: (*PLAN, "--prices", "builtin", "--profile", p)),
    "status": (JSON, STATUS, lambda p: ("plan", "--target", "epochs=9", "--deadline", "40h", "--prices", "builtin", "--from-status", p, "-o", "json")),
    "speed": (CSV, SPEEDS, lambda p: ("model", "speed", "--fit", p, "--predict", p)),
    "lifetime": (CSV, LIVES, lambda p: ("model", "lifetime", "--fit", p)),
}


def quoted(text):
    return "".join(",".join(f'"{field}"' for field in line.split(",")) + "\n" for line in text.splitlines())


# the same file, saved otherwise
SAME = {
    "windows line ends": lambda kind, text: text.replace("\n", "\r\n").encode(),
    "byte-order mark": lambda kind, text: b"\xef\xbb\xbf" + text.encode(),
    "mark and line ends": lambda kind, text: b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode(),
    "no last newline": lambda kind, text: text.rstrip("\n").encode(),
    "remarks and blanks": lambda kind, text: ("# what\n" + text.replace(",", " , ").replace("\n", " # so\n")).encode() if kind == "events" else None,
    "blank lines behind": lambda kind, text: (text + "\n\r\n\n").encode(),
    "gzip": lambda kind, text: gzip.compress(text.encode()),
    "quotes": lambda kind, text: quoted(text).encode() if kind == CSV else None,
    "names in capitals": lambda kind, text: (text.split("\n", 1)[0].upper() + "\n" + text.split("\n", 1)[1]).encode() if kind == CSV else None,
    "fields of more": lambda kind, text: ("x," + text.replace("\n", "\n7,").rstrip("7,") + "\n").encode() if kind == CSV and "InstanceType" in text else None,
}

# (reader, what is wrong, file, what the refusal says)
WRONG = [(name, what, text, says) for name in READERS for what, text, says in (("empty", "", None), ("only a newline", "\n", None), ("words", "no such thing\n", None),
                                                                             ("cut gzip", gzip.compress(b"0,1\n" * 9999)[:60], None), ("NUL", "a,b\0\n1,2\n", None),
                                                                             ("16-bit text", READERS[name][1].encode("utf-16"), None))]
WRONG += [
    ("counts", "negative", "hours,machines\n0,2\n1,-1\n9,1\n", "outside"), ("counts", "backwards", "hours,machines\n5,2\n1,1\n9,1\n", "time runs backwards"),
    ("counts", "half a machine", "hours,machines\n0,2.5\n9,1\n", "whole"),
    ("availability", "half a machine", '{"metadata":{"gap_seconds":600},"data":[1,0.5]}', "whole"), ("counts", "a million years", "hours,machines\n0,1\n8766000000,1\n", "years"),
    ("events", "a million years", "0,add,a\n31557600000000000,add,b\n", "years"), ("counts", "decimal comma", "hours,machines\n0,5,2\n9,1\n", "fields"),
    ("counts", "not finite", "hours,machines\n0,2\ninf,1\n", "not a number"), ("availability", "negative", '{"metadata":{"gap_seconds":600},"data":[1,-1]}', "data[1]"),
    ("availability", "no ticks", '{"metadata":{"gap_seconds":0},"data":[1,1]}', "gap_seconds"), ("availability", "cut", '{"metadata":{"gap_seconds":600},"data":[1,', "not JSON"),
    ("availability", "twice", '{"data":[1],"data":[0],"metadata":{"gap_seconds":600}}', "duplicate"), ("letters", "two", '{"metadata_of_last":{"gap_seconds":600},"traces_1_means_UNAVAILABLE":["012"]}', "'2'"),
    ("events", "twice", "0,add,a\n5,add,a\n", "added already"), ("events", "no verb", "0,add,a\n5,sub,a\n", "add or remove"),
    ("history", "no zone", HISTORY.replace("Z", ""), "zone"), ("history", "negative", HISTORY.replace(",0.3", ",-0.3", 1), "outside"),
    ("history", "no such day", HISTORY.replace("2024-02-29", "2023-02-29"), "time"), ("history", "April the 31st", HISTORY.replace("2024-02-28", "2024-04-31"), "time"),
    ("history", "backwards", HISTORY.replace("02-29", "02-27"), "backwards"), ("history", "no column", HISTORY.replace("spot_usd_per_h", "usd"), "spot_usd_per_h"),
    ("vms", "negative", VMS.replace("3.06", "-3.06"), "outside"), ("vms", "no price column", VMS.replace("Price", "Cost"), "Price"), ("vms", "no type column", VMS.replace("InstanceType", "Kind"), "InstanceType"),
    ("vms", "open quote", VMS.replace("p3.2xlarge", '"p3.2xlarge'), "quote"),
    ("vms", "a million dollars", VMS.replace("3.06", "1e9"), "outside"),
    ("profile", "negative", PROFILE.replace("300", "-300"), "samples_per_s"), ("profile", "unknown key", PROFILE.replace('"name"', '"nam"'), "nam"),
    ("profile", "too large", PROFILE.replace("300", "1e400"), None), ("status", "negative", STATUS.replace('"elapsed_s": 600', '"elapsed_s": -1'), "elapsed_s"),
    ("lifetime", "negative", LIVES.replace("1,stopped", "-1,stopped", 1), "outside"), ("speed", "nobody", SPEEDS.replace("m1,1,", "m1,0,"), None),
]
TOKENS = (b",", b"\n", b'"', b"-", b"1e308", b"1e-308", b"0", b"nan", b"inf", b"999999999999999999", b"\xff", b"\0", b"{", b"}", b"[", b"]", b":", b"null", b"\r", b"\xef\xbb\xbf", b"#", b"Z", b"e", b".")


class Runner:
    def __init__(self, folder):
        self.path, self.kept = os.path.join(folder, "given"), os.path.join(folder, "kept.csv")

    def __call__(self, name, data):
        with open(self.path, "wb") as out:
            out.write(data)
        if os.path.exists(self.kept):
            os.unlink(self.kept)
        done = subprocess.run([sys.argv[1], *READERS[name][2](self.path)], capture_output=True, timeout=300, env={**os.environ, "SPOTNIK_PRICES": self.kept})
        return done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")

    def keeps(self):
        try:
            with open(self.kept) as source:
                return source.read()
        except FileNotFoundError:
            return None


def same(run):
    for name, (kind, text, _) in READERS.items():
        code, want, said = run(name, text.encode())
        assert code == 0, (name, said)
        kept = run.keeps()
        for how, save in SAME.items():
            data = save(kind, text)
            if data is None:
                continue
            code, got, said = run(name, data)
            if how == "names in capitals":  # some tables come out with the names that they came with
                got, same_as = got.lower(), want.lower()
            else:
                same_as = want
            assert (code, got, run.keeps()) == (0, same_as, kept), (name, how, code, said, got[:300])


def names(run):
    """A name that would not come out as it went in is left out, and it is said."""
    for name in ("p3." + "x" * 60, '"p3,2xlarge"', "p3`id`", "p3$(id)", "p3\x01", "p\u00e9"):
        code, out, said = run("update", VMS.replace("p3.2xlarge", name).encode())
        assert code == 0 and "left out: 1 rows with a name that is too long, or not of plain letters" in out, (name, out, said)
        assert "p3.8xlarge" in run.keeps() and run.keeps().count("\n") == 2, run.keeps()


def wrong(run):
    for name, what, text, says in WRONG:
        code, out, said = run(name, text if isinstance(text, bytes) else text.encode())
        assert code in (1, 2), (name, what, code, out[:300])
        assert run.path in said and said.count("\n") == 1 and len(said) < 900, (name, what, said)
        assert says is None or says in said, (name, what, says, said)
        assert run.keeps() is None, (name, what)


def damaged(draw, data):
    for _ in range(draw.randrange(1, 4)):
        at, end = sorted(draw.randrange(len(data) + 1) for _ in "ab")
        end = min(end, at + 40)
        data = draw.choice((lambda: data[:at] + draw.choice(TOKENS) + data[at:], lambda: data[:at] + data[end:], lambda: data[:end] + data[at:end] + data[end:],
                            lambda: data[:at] + draw.choice(TOKENS) + data[at + 1:], lambda: data[:at] + bytes([draw.randrange(256)]) + data[at + 1:]))()
    return data


def fuzz(run, rounds, seed):
    refused = 0
    for i in range(rounds):
        draw = random.Random(f"{seed}/{i}")
        name = list(READERS)[i % len(READERS)]
        data = damaged(draw, READERS[name][1].encode())
        code, out, said = run(name, data)
        assert code in (0, 1, 2), (name, i, code, data, said)
        assert not re.search(r"(?<![a-z])-?(nan|inf)(?![a-z])", out, re.I), (name, i, data, out[:500])
        assert code == 0 or said or out, (name, i, data)
        refused += code != 0
    print(f"{rounds} damaged files, {refused} refused")


def main(folder):
    run = Runner(folder)
    for check in (same, names, wrong):
        check(run)
        print("ok", check.__name__, flush=True)
    fuzz(run, int(sys.argv[2]) if len(sys.argv) > 2 else 120, sys.argv[3] if len(sys.argv) > 3 else "0")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="spotnik-odd-files-") as scratch:
        main(scratch)
    print("ok")
