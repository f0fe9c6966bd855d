#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The man page of the commands for operators. Claims: each option that a command's --help lists stands in its part of
the page, and the page lists no other. The page's table of the environment has each variable that a user may set and
that a source names, and no other; it has 25 at most, and spotnik_config has 20 fields at most.

    man.py SPOTNIK PAGE ROOT"""

import re
import subprocess
import sys
from pathlib import Path

SPOTNIK, PAGE, ROOT = sys.argv[1:4]
COMMANDS = ("run", "notice", "slurm submit", "doctor", "fleet")

# Set by a command for the programs that it starts.
HANDED = {"SLOT", "SLOTS_FD", "SLOTS_PID", "WORKER", "BATCH"}
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
    for folder in ("src", "cli", "notice", "planner", "python/spotnik"):
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
    print(f"{len(names)} variables, {len(fields())} fields")
    return len(names) <= 25 and len(fields()) <= 20


def helped(command):
    done = subprocess.run([SPOTNIK, command.split()[0], "--help"], capture_output=True, text=True, check=True)
    return set(re.findall(r"^ +(?:-\w, |--[a-z-]+, )?(--[a-z-]+)", done.stdout, re.M))


def paged(command, page):
    """Of the command's lines in the synopsis, and of its section."""
    synopsis, rest = page.split(".Sh DESCRIPTION", 1)
    start = re.search(rf"^\.Nm\n\.Cm {command}$(.*?)^(\.Nm|\.Sh)$", synopsis + ".Sh", re.M | re.S)
    section = re.search(rf"^\.Ss spotnik {command}$(.*?)^\.S[sh] ", rest, re.M | re.S)
    if not start or not section:
        sys.exit(f"FAILED: {command} lacks a synopsis or a section")
    lines = [line for line in section.group(1).splitlines() if line.startswith(".It")]
    words = re.findall(r"\bFl (?:\w , )?-([a-z-]+)", start.group(1) + "\n".join(lines))
    return {"--" + word for word in words}


with open(PAGE) as file:
    TEXT = file.read()
wrong = 0
for one in COMMANDS:
    told, written = helped(one), paged(one, TEXT)
    if told != written:
        wrong += 1
        print(f"{one}: --help alone has {sorted(told - written)}, the page alone {sorted(written - told)}")
if not check_settings(TEXT) or wrong:
    sys.exit("FAILED")
print(f"{len(COMMANDS)} commands: page and --help have the same options")
