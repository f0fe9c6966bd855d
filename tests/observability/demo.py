# SPDX-License-Identifier: Apache-2.0
"""Claims: the demo's first line offers the address of a page, and that page shows the job while its workers are killed; it ends with a
report that it names, and the report tells of those losses.

    demo.py BUILD
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from typing import Optional

from lib import get, wait_for

BUILD = os.path.abspath(sys.argv[1])
ROOT = os.environ["SPOTNIK_ROOT"]


def page_of(port: int) -> Optional[str]:
    """Of the ports from the offered one on: where a member serves this demo's job, and has seen a loss."""
    for number in range(port, port + 64):
        status, text = get(f"http://127.0.0.1:{number}/job.json")
        if status == 200 and json.loads(text)["losses"] > 0 and get(f"http://127.0.0.1:{number}/")[0] == 200:
            return text
    return None


def main() -> None:
    serves = os.environ.get("SPOTNIK_TEST_HAVE_HTTP") != "0"
    with tempfile.TemporaryDirectory(prefix="spotnik-demo-test-") as folder:
        stem = os.path.join(folder, "told")
        environment = {**os.environ, "DEMO_SECONDS": "6", "DEMO_KILL_EVERY": "1500ms", "DEMO_REPORT": stem, "TMPDIR": folder}
        said = open(os.path.join(folder, "said"), "w+b")
        demo = subprocess.Popen([os.path.join(ROOT, "examples/demo.sh"), f"{BUILD}/examples", f"{BUILD}/cli/spotnik"], stdout=said, stderr=said, env=environment)
        try:
            if serves:
                first = wait_for("a first line", lambda: _first(said.name))
                offered = re.search(r"http://localhost:(\d+)/", first)
                assert offered, f"the first line offers no page: {first!r}"
                wait_for("a loss on the demo's page", lambda: page_of(int(offered.group(1))) or demo.poll() is not None, 120)
                assert demo.poll() is None, "the demo ended before its page had shown a loss"
            assert demo.wait(240) == 0, _read(said.name)
        finally:
            if demo.poll() is None:
                demo.terminate()
                demo.wait()
            said.close()
        text = _read(os.path.join(folder, "said"))
        named = re.search(r"^What the job did, lost and took: (.*\.html)$", text, flags=re.M)
        assert named and text.splitlines().index(named.group(0)) >= len(text.splitlines()) - 2, text[-2000:]
        assert "with revocations" in _read(named.group(1))
        losses = re.search(r"\| Lost, joined, left \| (\d+),", _read(stem + ".md"))
        assert losses and int(losses.group(1)) > 0, "the report knows of no loss"
        print("the demo: its page in the first line, its report in the last")


def _read(path: str) -> str:
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()


def _first(path: str) -> str:
    text = _read(path)
    return text.split("\n", 1)[0] if "\n" in text else ""


if __name__ == "__main__":
    main()
