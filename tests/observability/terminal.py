# SPDX-License-Identifier: Apache-2.0
"""Claims: `spotnik top` fits 80 columns and 24 lines, follows a change of size, sorts, colours nothing with NO_COLOR, ends with q
and gives the terminal back; elsewhere it writes lines or JSON. `spotnik status` and `spotnik top` without arguments find the job of this host.
The line of `spotnik run` has step, loss, members, speed, last recovery, time left and dollars; it is on a terminal alone, and is never
mixed with what workers print.

    terminal.py SPOTNIK CHARLM
"""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import tempfile
import termios
from typing import Callable, Optional

from lib import Job, is_worker, wait_for


class Terminal:
    """A program in a terminal, and the lines that are on it."""

    def __init__(self, command: list[str], columns: int, rows: int, environment: Optional[dict[str, str]] = None) -> None:
        self.master, slave = pty.openpty()
        self.columns, self.rows, self.raw = columns, rows, ""
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.before = termios.tcgetattr(slave)[3]  # before anybody changes it
        settings = {**os.environ, "TERM": "xterm-256color", **(environment or {})}
        settings = {name: value for name, value in settings.items() if value}
        self.process = subprocess.Popen(command, stdin=slave, stdout=slave, stderr=slave, env=settings, start_new_session=True)
        self.slave = slave

    def read(self) -> str:
        """All that was written so far."""
        while select.select([self.master], [], [], 0.05)[0]:
            try:
                got = os.read(self.master, 65536)
            except OSError:
                break
            if not got:
                break
            self.raw += got.decode("utf-8", "replace")
        return self.raw

    def screens(self) -> list[list[str]]:
        """The whole screens that were shown, without control sequences."""
        parts = self.read().split("\x1b[H")[1:]
        whole = [part.split("\x1b[J")[0] for part in parts if "\x1b[J" in part]
        return [[re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", line) for line in part.replace("\r", "").split("\n")] for part in whole]

    def until(self, what: str, check: Callable[[list[str]], bool]) -> list[str]:
        """Wait for a screen like this one."""
        return wait_for(what, lambda: next((screen for screen in reversed(self.screens()) if check(screen)), None))

    def press(self, key: str) -> None:
        """A key; what was shown before it is forgotten."""
        self.read()
        self.raw = ""
        os.write(self.master, key.encode())

    def resize(self, columns: int, rows: int) -> None:
        self.read()
        self.raw = ""
        self.columns, self.rows = columns, rows
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        os.kill(self.process.pid, signal.SIGWINCH)

    def fits(self, screen: list[str]) -> None:
        assert len(screen) <= self.rows, f"{len(screen)} lines of {self.rows}"
        wide = [line for line in screen if len(line) > self.columns]
        assert not wide, f"wider than {self.columns}: {wide}"

    def end(self) -> int:
        code = self.process.wait(20)
        self.read()
        os.close(self.master)
        os.close(self.slave)
        return code


def check_top(spotnik: str, where: list[str], pid: int) -> None:
    top = Terminal([spotnik, "top", *where, "--interval", "200ms"], 80, 24, {"NO_COLOR": ""})
    rows = re.compile(r"^ +\d+ [0-9a-f]{8} 127\.0\.0\.1:\d+ +\d+ +[\d.]+ +[\d.]+ +\d+ +([\d.]+%|-)")
    screen = top.until("three members", lambda lines: sum(bool(rows.match(line)) for line in lines) == 3)
    top.fits(screen)
    assert len(screen) == 24 and "loss" in screen[1] and "samples/s" in screen[1], screen
    assert "\x1b[7m" in top.raw and "\x1b[?1049h" in top.raw
    top.press("s")
    top.until("sorted by step", lambda lines: any("by STEP" in line for line in lines))
    top.press("r")
    shown = top.until("the other way round", lambda lines: any("by STEP down" in line for line in lines))
    steps = [int(line.split()[3]) for line in shown if rows.match(line)]
    assert steps == sorted(steps, reverse=True), steps
    top.resize(44, 8)
    screen = top.until("a small window", lambda lines: len(lines) == 8)
    top.fits(screen)
    top.resize(132, 40)
    screen = top.until("a large window", lambda lines: len(lines) == 40)
    top.fits(screen)
    os.kill(pid, signal.SIGKILL)
    top.press("s")
    top.until("the loss", lambda lines: any("last recovery: 1 lost" in line for line in lines))
    during = termios.tcgetattr(top.slave)[3]
    assert not during & termios.ECHO
    top.press("q")
    code = wait_for("the end of top", lambda: top.process.poll() is not None and (top.process.returncode,))[0]
    assert code == 0 and "\x1b[?1049l" in top.read() and "\x1b[?25h" in top.raw
    assert termios.tcgetattr(top.slave)[3] == top.before, "the terminal is as it was"
    top.end()
    plain = Terminal([spotnik, "top", *where, "--interval", "200ms"], 80, 24, {"NO_COLOR": "1"})
    plain.until("members", lambda lines: any(rows.match(line) for line in lines))
    plain.press("q")
    assert plain.end() == 0 and not re.search(r"\x1b\[[0-9;]*m", plain.raw), "NO_COLOR"
    killed = Terminal([spotnik, "top", *where], 80, 24)
    killed.until("anything", lambda lines: bool(lines))
    os.kill(killed.process.pid, signal.SIGTERM)
    code = killed.end()
    assert code == 0 and "\x1b[?1049l" in killed.raw, "the terminal comes back after SIGTERM, too"
    print("top: 80x24, 44x8, 132x40; sorts; a loss is seen; q and SIGTERM give the terminal back; NO_COLOR")


def check_lines(spotnik: str, where: list[str]) -> None:
    out = subprocess.run([spotnik, "top", *where, "--count", "2", "--interval", "100ms"], capture_output=True, text=True, check=True).stdout
    assert len(out.splitlines()) == 2 and all(line.startswith("spotnik: step ") for line in out.splitlines()), out
    assert "\x1b" not in out
    out = subprocess.run([spotnik, "top", *where, "--count", "2", "--interval", "100ms", "--json"], capture_output=True, text=True, check=True).stdout
    looks = [json.loads(line) for line in out.splitlines()]
    assert len(looks) == 2 and all(len(look["members"]) == look["job"]["size"] for look in looks)
    assert looks[1]["job"]["step_committed"] >= looks[0]["job"]["step_committed"] > 0
    print("top elsewhere: a line, or an object, each time")


def check_status(spotnik: str, job: Job) -> list[str]:
    """Other jobs may run on this host while the tests do: ours is found among them."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("SPOTNIK_")}

    def settings() -> dict[str, str]:
        """Of a worker that has become the program it runs."""
        for pid in job.workers():
            with open(f"/proc/{pid}/environ", encoding="utf-8") as file:
                words = dict(entry.split("=", 1) for entry in file.read().split("\0") if "=" in entry)
            if "SPOTNIK_SLOT" in words:
                return words
        return {}

    ours = wait_for("a worker", settings)

    def found() -> list[dict[str, object]]:
        done = subprocess.run([spotnik, "status", "--json"], capture_output=True, text=True, env=clean, check=False)
        return [status for status in map(json.loads, done.stdout.splitlines()) if status["pid"] in job.workers() and status["step_committed"] > 1]

    wait_for("our job among those of this host", found)
    return ["--peers", ours["SPOTNIK_PEERS"], "--key-file", ours["SPOTNIK_KEY_FILE"]]


ALONE = """
"$1" run -n 1 -- "$2" --quiet --steps 0 --batch 64 >/dev/null 2>&1 & one=$!
until "$1" top --count 1 --json 2>"$3/why"; do kill -0 $one || exit 9; sleep 0.05; done
"$1" run -n 1 -- "$2" --quiet --steps 0 --batch 64 >/dev/null 2>&1 & two=$!
while "$1" top --count 1 >"$3/line" 2>"$3/why"; do kill -0 $two || exit 9; sleep 0.05; done
cat "$3/why" >&2
kill $one $two
wait
"""


def check_top_alone(spotnik: str, charlm: str) -> None:
    """Where no other process is seen: one job is found, of several none is guessed. The pauses are between two looks."""
    apart = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]
    if subprocess.run([*apart, "true"], capture_output=True, check=False).returncode != 0:
        print("top without arguments: SKIPPED, no process namespace can be made here")
        return
    clean = {name: value for name, value in os.environ.items() if not name.startswith("SPOTNIK_")}
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run([*apart, "sh", "-c", ALONE, "sh", spotnik, charlm, folder], capture_output=True, text=True, env=clean, check=False,
                              timeout=120)
        assert done.returncode == 0, done
        assert json.loads(done.stdout)["job"]["pid"] > 1, done
        assert "several jobs run here" in done.stderr and len(re.findall(r"^  spotnik top --job \S+ --peers \S+ --key-file \S+$", done.stderr, re.M)) == 2, done
    print("top without arguments: the one job of a host is found; of two, both are named")


def check_line_of_losses(spotnik: str, charlm: str) -> None:
    """The whole line: after a loss, of a job with an end and a price."""
    command = [spotnik, "run", "-n", "2:3", "--respawn", "--", charlm, "--quiet", "--steps", "10000000", "--batch", "64"]
    run = Terminal(command, 120, 24, {"SPOTNIK_PRICE": "360"})
    # All three: the one that is killed must be a member, or nobody loses it.
    wait_for("a line", lambda: re.search(r"\x1b\[Kstep [1-9]\d*/10000000  loss [\d.]+  3 members", run.read()))
    with open(f"/proc/{run.process.pid}/task/{run.process.pid}/children", encoding="ascii") as file:
        os.kill(next(pid for pid in map(int, file.read().split()) if is_worker(pid)), signal.SIGKILL)
    whole = r"\x1b\[Kstep \d+/10000000  loss [\d.]+  [23] members  \d+ samples/s  recovered in [\d.]+ ms  left \d+ min  \$\d+\.\d{3}"
    wait_for("step, loss, members, speed, recovery, time left, dollars", lambda: re.search(whole, run.read()), 60)
    os.kill(run.process.pid, signal.SIGTERM)
    assert run.end() == 75


def check_run_line(spotnik: str, charlm: str) -> None:
    command = [spotnik, "run", "-n", "2", "--", "sh", "-c", 'echo "begins here"; exec "$@"', "sh", charlm, "--steps", "100000", "--batch", "64"]
    run = Terminal(command, 80, 24)
    wait_for("the line", lambda: re.search(r"\r\x1b\[Kstep \d+/100000  loss [\d.]+  2 members  \d+ samples/s", run.read()))
    wait_for("the line again", lambda: len(re.findall(r"\r\x1b\[Kstep \d+/", run.read())) > 2)
    os.kill(run.process.pid, signal.SIGTERM)
    assert run.end() == 75
    for line in run.raw.replace("\r\n", "\n").split("\n"):
        after = line.split("\r\x1b[K")[-1]
        assert not ("step " in after and "samples/s" in after and after.startswith("[w")), f"mixed: {line!r}"
        assert len(after) <= 110, after
    last = [line.split("\r\x1b[K")[-1] for line in run.raw.replace("\r\n", "\n").split("\n")]
    assert any(line.startswith("spotnik: interrupted") for line in last), last[-5:]
    check_line_of_losses(spotnik, charlm)
    piped = subprocess.run([*command[:-4], "--steps", "60", "--batch", "64"], capture_output=True, text=True, check=True)
    assert "\x1b" not in piped.stdout + piped.stderr and "samples/s" not in piped.stderr, piped.stderr
    objects = subprocess.run([spotnik, "run", "--json", "-n", "2", "--", charlm, "--quiet", "--steps", "1500", "--batch", "64"],
                             capture_output=True, text=True, check=True)
    kinds = [json.loads(line)["kind"] for line in objects.stderr.splitlines() if line.startswith("{")]
    assert "status" in kinds and "run" in kinds, objects.stderr
    print("run: one line on a terminal, none elsewhere, objects with --json")


def main() -> None:
    spotnik, charlm = map(os.path.abspath, sys.argv[1:3])
    with Job(spotnik, ["-n", "2:3", "--respawn"], [charlm, "--quiet", "--steps", "0", "--batch", "64"], {"SPOTNIK_HTTP": ""}) as job:
        where = check_status(spotnik, job)
        check_lines(spotnik, where)
        check_top(spotnik, where, job.workers()[0])
    clean = {name: value for name, value in os.environ.items() if not name.startswith("SPOTNIK_")}
    done = subprocess.run([spotnik, "top", "--count", "1", "--peers", "127.0.0.1:1"], capture_output=True, text=True, env=clean, check=False,
                          timeout=60)  # it asks for what is missing, and waits for nobody
    assert done.returncode == 2 and "--key-file" in done.stderr, done
    check_top_alone(spotnik, charlm)
    check_run_line(spotnik, charlm)


if __name__ == "__main__":
    main()
