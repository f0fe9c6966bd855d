# SPDX-License-Identifier: Apache-2.0
"""The wheel: one for every Python 3, installed into a fresh environment, without the source tree or the network."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(os.environ["SPOTNIK_ROOT"])
SCRIPT = """
import sys
import spotnik
assert not [name for name in ("numpy", "torch") if name in sys.modules]
job = spotnik.Job(spotnik.Config(steps_max=3))
with job:
    for step in job:
        job.step_commit()
    print(f"{job.step} steps of {job.size}")
"""


def clean_environment(**more: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("SPOTNIK_", "PYTHON"))}
    return {**kept, **more}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check"]
    done = subprocess.run(
        [*pip, "--no-build-isolation", "--no-deps", "--no-index", "--wheel-dir", str(folder), str(ROOT)],
        capture_output=True,
        text=True,
        env=clean_environment(),
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (made,) = folder.glob("*.whl")
    return made


@pytest.fixture(scope="module")
def fresh(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bin folder of an environment that has nothing but the wheel."""
    folder = tmp_path_factory.mktemp("fresh")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    python = folder / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "--python", str(python)]
    subprocess.run([*pip, "install", "--no-deps", "--no-index", str(wheel)], check=True, env=clean_environment())
    return python.parent


def test_one_wheel_for_every_python(wheel: Path) -> None:
    assert "linux_" in wheel.name
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        metadata = next(archive.read(name).decode() for name in names if name.endswith(".dist-info/METADATA"))
    assert any(name.endswith(".libs/libspotnik.so.0") for name in names)
    assert not [name for name in names if ".cpython-" in name or ".abi3." in name]
    scripts = {Path(name).name for name in names if ".data/scripts/" in name}
    # other packages where they are asked for
    assert scripts == {"spotnik", "spotnik-kubernetes", "spotnik-notice", "spotnik-slurm"}
    assert any(name.endswith("spotnik/py.typed") for name in names)
    assert not [name for name in names if "__pycache__" in name or name.endswith((".h", ".a", ".1"))]
    assert not [line for line in metadata.splitlines() if line.startswith("Requires-Dist") and "extra ==" not in line]
    assert "==" not in "".join(line for line in metadata.splitlines() if line.startswith("Requires-Dist")).replace(
        "extra ==", ""
    )


def test_alone(fresh: Path, tmp_path: Path) -> None:
    out = subprocess.check_output(
        [str(fresh / "python"), "-c", SCRIPT], text=True, cwd=tmp_path, env=clean_environment()
    )
    assert out == "3 steps of 1\n"


def test_under_spotnik_run(fresh: Path, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    done = subprocess.run(
        ["spotnik", "run", "-n", "3", "--", "python", "train.py"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=clean_environment(PATH=f"{fresh}:{os.environ['PATH']}"),
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("] 3 steps of ") == 3, done.stdout


COMMANDS = "run status top report trace checkpoint key doctor bench notice slurm"


@pytest.mark.parametrize("command", COMMANDS.split())
def test_every_command(fresh: Path, tmp_path: Path, command: str) -> None:
    done = subprocess.run(
        [str(fresh / "spotnik"), command, "--help"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=clean_environment(PATH="/usr/bin:/bin"),
    )
    assert done.returncode == 0, done.stderr
    assert f"usage: spotnik {command}" in done.stdout.replace("Usage", "usage"), done.stdout


def test_a_library_that_is_not_there(fresh: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [str(fresh / "python"), "-c", SCRIPT],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=clean_environment(SPOTNIK_LIBRARY="/nowhere/libspotnik.so"),
    )
    assert done.returncode == 1
    assert "set SPOTNIK_LIBRARY to the path of libspotnik.so in a build folder" in done.stderr


def test_demo(fresh: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [str(fresh / "python"), "-m", "spotnik.demo"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=clean_environment(PATH="/usr/bin:/bin", DEMO_SECONDS="8", DEMO_KILL_EVERY="3s", NO_COLOR="1"),
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1].startswith("Every promise was kept"), done.stdout
    assert "<svg" in (tmp_path / "spotnik-demo.html").read_text()
