# SPDX-License-Identifier: Apache-2.0
"""What a member on one GPU pays, in one run of at most nine minutes: lines with a target, the code before and now.

    PYTHONPATH=python SPOTNIK_LIBRARY=build/src/libspotnik.so python3 bench/gpu.py [--fake | --stall]

With --fake it runs on the CPU, with the device of tests/python/torch/fake_device.py: that shows that all of it works.
Of its figures only those of line e, how long a donor is held up, say something of a CPU. --stall measures only that,
for 1 and 4 GiB, in host memory and with that device, in minutes and four times the memory of the state. Only a run on
a GPU writes docs/results/gpu.md. Members are forks of this process, which leaves CUDA alone. "before" of line e is a
program that said spotnik_state_changed(), for which step_begin takes the whole copy, as it did for all. Steps are
longer than the copy takes, or the commit would wait for the rest of it.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import secrets
import statistics
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import nn

import spotnik.torch as spotnik
from spotnik.torch import _replica, _staging
from spotnik.torch._parting import sums_of
from spotnik.torch._session import current

ELSEWHERE = (
    "f, tests/python/torch/test_cuda.py, which has pytest",
    "g, beside DDP and torchft with Gloo",
    "i, DiLoCo beside S-SGD",
)
ROOT = Path(__file__).resolve().parents[1]
Tell = Callable[[Any], None]


class Model(nn.Module):
    """A transformer as GPT-2, and a table that no step changes: state that costs nothing else."""

    def __init__(self, width: int, layers: int, table_bytes: int = 0) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.words = nn.Embedding(1024, width)
        one = nn.TransformerEncoderLayer(width, max(1, width // 64), 4 * width, 0.0, batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(one, layers, enable_nested_tensor=False)
        self.out = nn.Linear(width, 1024)
        self.register_buffer("table", torch.zeros(max(1, table_bytes // 4)))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.out(self.layers(self.words(x))).float()


def settle(options: argparse.Namespace) -> torch.device:
    """In a member: its device."""
    torch.set_num_threads(1)
    if options.host:
        return torch.device("cpu")
    if options.fake:
        sys.path.insert(0, str(ROOT / "tests/python/torch"))
        from fake_device import FakeDevice

        device = FakeDevice(seed=1, eager=True)
        for module in (_staging, _replica):
            module.accelerator_of = lambda _tensor: device  # type: ignore[attr-defined]
        return torch.device("cpu")
    return torch.device("cuda")


def train(options: argparse.Namespace, net: nn.Module, opt: Any, device: torch.device, steps: int) -> list[float]:
    """Seconds of each step."""
    x = torch.randint(0, 1024, (options.batch, options.length), device=device)
    times = []
    for _ in range(steps):
        begun = time.perf_counter()
        nn.functional.cross_entropy(net(x).flatten(0, 1), x.flatten()).backward()
        opt.step()
        opt.zero_grad()
        if not options.fake:
            torch.cuda.synchronize()
        times.append(time.perf_counter() - begun)
    return times


def model_of(options: argparse.Namespace, device: torch.device, table_bytes: int = 0) -> tuple[nn.Module, Any]:
    kind = torch.float32 if options.fake else torch.bfloat16
    net = Model(options.width, options.layers, table_bytes).to(device, kind)
    return net, torch.optim.AdamW(net.parameters(), lr=1e-4)


# ---- members, each a process ----


def fork(member: Callable[[argparse.Namespace, Tell], None], options: argparse.Namespace, folder: str) -> Any:
    """Returns the pipe on which it tells one thing."""
    read, write = os.pipe()
    if os.fork() == 0:
        os.environ.update(
            SPOTNIK_PEERS=f"file:{folder}", SPOTNIK_KEY_FILE=f"{folder}/key", SPOTNIK_HOST=f"host-{os.getpid()}"
        )
        try:
            member(options, lambda what: os.write(write, json.dumps(what).encode()) and None)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(0)
    os.close(write)
    return read


def told(pipe: int) -> Any:
    """Waits for the member's end."""
    text = b"".join(iter(lambda: os.read(pipe, 65536), b""))
    os.close(pipe)
    os.wait()
    if not text:
        raise SystemExit("a member ended without its figures: see above")
    return json.loads(text)


def together(options: argparse.Namespace, *members: Callable[[argparse.Namespace, Tell], None]) -> list[Any]:
    with tempfile.TemporaryDirectory() as folder:
        key = Path(folder, "key")
        key.write_text(secrets.token_hex(32) + "\n")
        key.chmod(0o600)
        return [told(pipe) for pipe in [fork(one, options, folder) for one in members]]


# ---- the lines ----


def ceilings(options: argparse.Namespace, tell: Tell) -> None:
    """a: GB/s to the host into pinned, registered and pageable memory."""
    count, found = 1 << 28, {}
    there = torch.zeros(count, dtype=torch.uint8, device="cuda")
    registered = torch.zeros(count, dtype=torch.uint8)
    torch.cuda.cudart().cudaHostRegister(registered.data_ptr(), count, 0)
    pinned, pageable = torch.empty(count, dtype=torch.uint8, pin_memory=True), torch.zeros(count, dtype=torch.uint8)
    for name, host in (("pinned", pinned), ("registered", registered), ("pageable", pageable)):
        for _ in range(3):
            torch.cuda.synchronize()
            begun = time.perf_counter()
            host.copy_(there, non_blocking=True)
            torch.cuda.synchronize()
            found[name] = count / (time.perf_counter() - begun) / 1e9
    tell(found)


def one_alone(options: argparse.Namespace, tell: Tell) -> None:
    """b: a job of one beside the plain loop, in turns of whole runs."""
    for name in ("SPOTNIK_PEERS", "SPOTNIK_KEY_FILE"):
        os.environ.pop(name)
    device = settle(options)
    plain = statistics.median(train(options, *model_of(options, device), device, options.steps)[2:])
    net, opt = spotnik.prepare(*model_of(options, device))
    own = statistics.median(train(options, net, opt, device, options.steps)[2:])
    tell({"plain": plain, "own": own})


def member(options: argparse.Namespace, tell: Tell) -> None:
    """c, d: one that computes; what it waits for after backward, and how often the host waits for the device."""
    os.environ["SPOTNIK_MIN"] = "2"
    device, waits, calls = settle(options), [], []
    net, opt = spotnik.prepare(*model_of(options, device), on_step=lambda report: waits.append(report.wait_s))
    train(options, net, opt, device, 3)
    times = train(options, net, opt, device, options.steps)
    if not options.fake:
        torch.cuda.set_sync_debug_mode("warn")
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            nn.functional.cross_entropy(net(x := torch.zeros(2, 8, dtype=torch.long, device=device)).mT, x).backward()
            opt.step()
        calls = [one for one in seen if "synchroniz" in str(one.message)]
        torch.cuda.set_sync_debug_mode("default")
    else:
        train(options, net, opt, device, 1)
    tell({"step": statistics.median(times), "wait": statistics.median(waits[3:]), "calls": len(calls)})
    spotnik.leave()


def echo(options: argparse.Namespace, tell: Tell) -> None:
    """The other one of c: on the CPU, with gradients of weight 0, at once."""
    os.environ["SPOTNIK_MIN"] = "2"
    torch.set_num_threads(1)
    _net, opt = spotnik.prepare(*model_of(options, torch.device("cpu")))
    for _ in range(options.steps + 4):
        current().begin()
        spotnik.skip()
        opt.step()
        opt.zero_grad()
    tell({})
    spotnik.leave()


def donor(options: argparse.Namespace, tell: Tell, at_once: bool = False) -> None:
    """e: steps of a fixed length while another copies its state."""
    device = settle(options)
    net = nn.Linear(8, 8).to(device)
    net.register_buffer("table", torch.ones(options.state_bytes // 4, device=device))
    net, opt = spotnik.prepare(net, torch.optim.SGD(net.parameters(), lr=0.1))
    x, times, joined = torch.ones(4, 8, device=device), [], 0
    while len(times) < 6 or (joined < 4 and len(times) < 200 and not (joined and spotnik.size() == 1)):
        begun = time.perf_counter()
        loss = net(x).sum()  # begins the step
        if at_once and not times:
            spotnik.job().state_changed()
        time.sleep(options.step_s)
        loss.backward()
        opt.step()
        times.append(time.perf_counter() - begun)
        joined += spotnik.size() > 1
    times = times[2:]
    tell({"longest": max(times), "median": statistics.median(times), "joined": joined > 0})
    spotnik.leave()


def donor_at_once(options: argparse.Namespace, tell: Tell) -> None:
    donor(options, tell, at_once=True)


def joiner(options: argparse.Namespace, tell: Tell) -> None:
    """The other one of e."""
    time.sleep(6 * options.step_s)
    donor(options, tell)


def digest(options: argparse.Namespace, tell: Tell) -> None:
    """h: the sums by which members compare their replicas."""
    device, size = ("cpu", 1 << 28) if options.fake else ("cuda", 1 << 34)
    state = [("", torch.ones(size // 4 // 16, device=device)) for _ in range(16)]
    before = sums_of(state)
    begun = time.perf_counter()
    sums_of(state)
    took = time.perf_counter() - begun
    state[7][1].view(torch.int32)[12345] ^= 1
    tell({"took": took, "bytes": size, "found": sums_of(state) != before})


Line = tuple[str, str, str, str]  # what, target, before, now


def stall(options: argparse.Namespace, mib: int) -> Line:
    """Line e, with `mib` of state."""
    options.state_bytes, options.step_s = mib << 20, max(0.6, mib / 1024 * 0.75)
    before, now = (together(options, one, joiner)[0] for one in (donor_at_once, donor))
    assert before["joined"] and now["joined"], "the joiner did not come"
    over = [f"{(one['longest'] - one['median']) * 1e3:.0f}" for one in (before, now)]
    where = "in host memory" if options.host else "on the device"
    what = f"e: {mib} MiB of state {where} for a joiner: the donor's longest step over its median"
    return f"{what} ({now['median'] * 1e3:.0f} ms), ms", "<= 15", *over


def stalls(options: argparse.Namespace) -> Iterator[Line]:
    """Line e as far as a CPU can show it."""
    for options.host in (True, False):
        for mib in [options.state_mib] if options.state_mib else [1024, 4096]:
            yield stall(options, mib)


def lines(options: argparse.Namespace) -> Iterator[Line]:
    """All that one run shows."""
    if not options.fake:
        a = together(options, ceilings)[0]
        now = f"pinned {a['pinned']:.1f}, registered {a['registered']:.1f}"
        yield "a: to the host, GB/s", "-", f"pageable {a['pageable']:.1f}", now
    b = together(options, one_alone)[0]
    yield "b: a job of one / the plain loop", "<= 1.02", "-", f"{b['own'] / b['plain']:.3f}"
    c, _ = together(options, member, echo)
    took = f"{c['step'] * 1e3:.1f}; {c['wait'] * 1e3:.1f}"
    yield "c: step beside an echo member over loopback, ms; of it after backward", "-", "-", took
    if not options.fake:
        yield "d: synchronisations a step", "<= 6", "-", str(c["calls"])
    yield stall(options, options.state_mib or (1024 if options.fake else 4096))
    h = together(options, digest)[0]
    assert h["found"], "the digest has missed a flipped bit"
    what = f"h: digest of {h['bytes'] >> 20} MiB, ms; a flipped bit is found"
    yield what, "<= 20 on a GPU", "-", f"{h['took'] * 1e3:.1f}"
    yield from (("not in this script: " + what, "-", "-", "-") for what in ELSEWHERE)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--fake", action="store_true", help="on the CPU, with a device that is played")
    parser.add_argument("--stall", action="store_true", help="only line e, on the CPU, with 1 and 4 GiB")
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--state-mib", type=int, default=0, help="of line e; default: 4096 on a GPU, 1024 without")
    options = parser.parse_args()
    options.host, options.fake = False, options.fake or options.stall
    options.batch, options.length = (2, 8) if options.fake else (8, 512)
    options.width, options.layers = (64, 2) if options.fake else (1024, 24)
    rows = []
    head = ("what", "target", "before", "now"), ("---",) * 4
    for row in itertools.chain(head, (stalls if options.stall else lines)(options)):
        rows.append(f"| {' | '.join(row)} |")
        print(rows[-1], flush=True)
    table = "\n".join(rows)
    if not options.fake:
        name = torch.cuda.get_device_name()
        text = f"# On one GPU\n\n`bench/gpu.py` on {name}, PyTorch {torch.__version__}:\n\n{table}\n"
        (ROOT / "docs/results/gpu.md").write_text(text)


main()
