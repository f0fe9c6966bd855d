#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The man page of the commands for operators. Claim: each option that a command's --help lists stands in its part of
the page, and the page lists no other.

    man.py SPOTNIK PAGE"""

import re
import subprocess
import sys

SPOTNIK, PAGE = sys.argv[1:3]
COMMANDS = ("run", "notice", "slurm submit", "doctor", "fleet")


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
if wrong:
    sys.exit("FAILED")
print(f"{len(COMMANDS)} commands: page and --help have the same options")
