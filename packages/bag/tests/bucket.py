# SPDX-License-Identifier: Apache-2.0
"""The claim of killed.py for a bag in a bucket: workers on machines that share nothing but that.

bucket.py SPOTNIK SIM [NAME...]
"""

import os
import pathlib
import sys
import time

import lib
from killed import killed

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../tests/stores"))
from stand_ins import stand_in


class BucketCase(lib.Case):
    """Its bag is in a stand-in for S3."""

    def __init__(self, spotnik, sim):
        super().__init__(spotnik, sim)
        self.server = stand_in("s3")
        self.bag = "s3://bucket/bag"

    def __exit__(self, *error):
        super().__exit__(*error)
        self.server.close()

    def environment(self, host=None, stale_ms=1000):
        return super().environment(host, stale_ms) | self.server.environment | {"TMPDIR": str(self.dir)}

    def objects(self, prefix):
        with self.server.bucket.lock:
            return {
                key.removeprefix(prefix): data
                for key, data in self.server.bucket.objects.items()
                if key.startswith(prefix)
            }

    def is_made(self):
        return "bag.json" in self.objects("bag/")

    def prefix(self, part):
        return f"bag/marks/{part}." if part in ("claims", "results", "aside", "dropped") else f"bag/{part}/"

    def names(self, part):
        return sorted(self.objects(self.prefix(part)))

    def text(self, part, name):
        return self.objects(self.prefix(part))[name].decode()

    def away(self):
        self.server.bucket.away = ""
        time.sleep(1.5)  # the length of the outage, not a wait for anything
        self.server.bucket.away = None

    def results(self, bag=None):
        if bag is not None:
            return super().results(bag)
        (self.dir / "fetched").mkdir(exist_ok=True)
        fetched = self.command("fetch", self.bag, self.dir / "fetched" / "results")
        lib.check(fetched.returncode == 0, f"fetch: {fetched.stderr}")
        return super().results(self.dir / "fetched")


def aside(case):
    """A job that fails is set aside with its log, and tried again; a job is added, and one is dropped."""
    case.jobs([0.5, 0.6])
    terms = ("--notice", "off", "--tries", "2", "--", "sh", "-c", "echo said; test -e $0", case.dir / "fine")
    made = case.command(case.dir / "jobs.csv", "--folder", case.bag, *terms)
    lib.check(made.returncode == 1 and case.names("aside") == ["1", "2"], f"not set aside: {made.stderr}")
    lib.check(b"said" in case.objects("bag/aside/")["1.tar"], "the log is not there")
    (case.dir / "fine").touch()
    for words in (("retry", case.bag, "1", "2"), ("add", case.bag, case.jobs([0.7, 0.8], name="more.csv"))):
        done = case.command(*words)
        lib.check(done.returncode == 0, f"{words[0]}: {done.stderr}")
    lib.check(case.command("drop", case.bag, "4").returncode == 0, "drop")
    joined = case.command("join", case.bag, "--notice", "off")
    lib.check(joined.returncode == 0, f"join: {joined.stderr}")
    report = case.report()
    found = {key: report[key] for key in ("jobs", "done", "aside", "dropped")}
    lib.check(found == {"jobs": 4, "done": 3, "aside": 0, "dropped": 1}, f"{found}")
    lib.check(sorted(case.results()) == ["1", "2", "3"], "results")
    other = case.command(case.jobs([0.1]), "--folder", case.bag, "--", "true")
    lib.check("holds another bag" in other.stderr, f"another bag is not refused: {other.stderr}")
    scratch = [path.name for path in pathlib.Path(case.dir).glob("spotnik-bag-*")]
    lib.check(scratch == [], f"scratch is left: {scratch}")


if __name__ == "__main__":
    lib.run([aside, killed], BucketCase)
