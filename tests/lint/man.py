#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The manual of the commands for operators. Claims: each option that a command's --help lists stands in its part of
spotnik.1, or in its own page, and no other does; `spotnik --help` lists the commands that spotnik.1 has sections for. The
page's table of the environment has each variable that a user may set and that a source names, and no other; each is an
option of `spotnik run`; it has 25 at most, and spotnik_config has 20 fields at most.

    man.py SPOTNIK FOLDER ROOT"""

import os
import re
import subprocess
import sys
from pathlib import Path

SPOTNIK, PAGES, ROOT = sys.argv[1:4]
INSIDE, OWN = ("run", "doctor"), ("notice", "slurm submit", "kubernetes", "fleet")


def read(name):
    """Synopsis and the rest of a page of docs/man or of a package."""
    (page,) = [*Path(PAGES).glob(f"{name}.1"), *Path(ROOT, "packages").glob(f"*/{name}.1")]
    return page.read_text(encoding="utf-8").split(".Sh DESCRIPTION", 1)

# Set by a command for the programs that it starts.
HANDED = {"SLOT", "SLOTS_FD", "SLOTS_PID", "WORKER", "GROUP", "BATCH"}
HANDED_AS = ("NOTICE_", "BAG", "FLEET_")
# Of tests and benchmarks: docs/HACKING.md.
OURS = {"LIBRARY", "PYTHON", "HOST", "STALE_MS", "CPU", "IMDS_ENDPOINT"}
# Of one command alone, whose own page or section has it.
OF_COMMANDS = {"PRICES", "PRICES_MIRROR", "KEY"}
# The tie-breaker of folders that are not known: until the folder's own options are cut.
FOLDER = {"FOLDER"}


def named():
    """Variables that the sources name, without their SPOTNIK_."""
    found = set()
    for folder in ("src", "cli", "common", "packages", "python/spotnik"):
        for path in Path(ROOT, folder).rglob("*.[chp]*"):
            if path.suffix in (".c", ".h", ".py"):
                found |= set(re.findall(r'"SPOTNIK_([A-Z_]+)"', path.read_text(encoding="utf-8")))
    other = HANDED | OURS | OF_COMMANDS | FOLDER
    return {name for name in found if name not in other and not name.startswith(HANDED_AS)}


def fields():
    """Of spotnik_config, but for its size."""
    header = Path(ROOT, "include/spotnik/spotnik.h").read_text(encoding="utf-8")
    body = re.search(r"typedef struct spotnik_config \{(.*?)\} spotnik_config;", header, re.S)[1]
    body = re.sub(r"/\*.*?\*/", "", body, flags=re.S)
    return re.findall(r"(\w+);", body)[1:]


def check_settings(page):
    """True: the table is that of the sources."""
    section = page.split(".Sh ENVIRONMENT", 1)[1].split(".Sh ", 1)[0]
    table = re.findall(r"^\.It Ev SPOTNIK_([A-Z_]+) Pq (?:Va (\w+) ; No )?\S", section, re.M)
    names, told = {name for name, _ in table}, {field for _, field in table if field}
    if names != named() or not told <= set(fields()):
        print(f"environment: the page alone has {sorted(names - named())}, the sources alone {sorted(named() - names)};"
              f" no fields: {sorted(told - set(fields()))}")
        return False
    options_of = {"--" + name.lower().replace("_", "-") for name in names}
    if not options_of <= paged("run"):
        print(f"settings that are no option of spotnik run: {sorted(options_of - paged('run'))}")
        return False
    print(f"{len(names)} variables, {len(fields())} fields; each variable is an option of spotnik run")
    return len(names) <= 25 and len(fields()) <= 20


def helped(command):
    done = subprocess.run([SPOTNIK, *command.split()[:1], "--help"], capture_output=True, text=True, check=True)
    return done.stdout


def options(synopsis, text):
    lines = [line for line in text.splitlines() if line.startswith(".It")]
    return {"--" + word for word in re.findall(r"\bFl (?:\w , )?-([a-z-]+)", synopsis + "\n".join(lines))}


def paged(command):
    """Of the command's lines in the synopsis, and of its section, or of its page."""
    if command in OWN:
        return options(*read("spotnik-" + command.split()[0]))
    synopsis, rest = read("spotnik")
    start = re.search(rf"^\.Nm\n\.Cm {command}$(.*?)^(\.Nm|\.Sh)$", synopsis + ".Sh", re.M | re.S)
    section = re.search(rf"^\.Ss spotnik {command}$(.*?)^\.S[sh] ", rest, re.M | re.S)
    if not start or not section:
        sys.exit(f"FAILED: {command} lacks a synopsis or a section")
    return options(start.group(1), section.group(1))


wrong = 0
for one in (*INSIDE, *OWN):
    told = set(re.findall(r"^ +(?:-\w, |--[a-z-]+, )?(--[a-z-]+)", helped(one), re.M))
    written = paged(one)
    if told != written:
        wrong += 1
        print(f"{one}: --help alone has {sorted(told - written)}, the page alone {sorted(written - told)}")
names = set(re.findall(r"^  ([a-z]+)  +[a-z]", helped("").split("First steps")[0], re.M))
sections = set(re.findall(r"^\.Ss spotnik (\w+)", read("spotnik")[1], re.M))
if names != sections:
    wrong += 1
    print(f"--help lists {sorted(names)}, the page {sorted(sections)}")
if not check_settings(read("spotnik")[1]) or wrong:
    sys.exit("FAILED")
print(f"{len(INSIDE + OWN)} commands: page and --help have the same options; {len(names)} commands have a section")
