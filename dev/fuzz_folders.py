# SPDX-License-Identifier: Apache-2.0
"""Print how many lines of each folder fuzzing has run. Reads llvm-cov's export from the standard input."""

import collections
import json
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
counts: dict[str, list[int]] = collections.defaultdict(lambda: [0, 0])
for entry in json.load(sys.stdin)["data"][0]["files"]:
    path = Path(entry["filename"]).resolve()
    if path.is_relative_to(ROOT) and "tests" not in path.parts:
        of = counts[str(path.parent.relative_to(ROOT))]
        of[0] += entry["summary"]["lines"]["covered"]
        of[1] += entry["summary"]["lines"]["count"]
for folder, (covered, count) in sorted(counts.items()):
    print(f"  {folder:32} {covered:6} of {count:6}  {100 * covered // max(count, 1):3} %")
