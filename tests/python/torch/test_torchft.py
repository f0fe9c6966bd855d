# SPDX-License-Identifier: Apache-2.0
"""torchft's own wrappers over a job of Spotnik: with plain PyTorch as the measure, with kills and with newcomers."""

from __future__ import annotations

import collections
import contextlib
import os
import re
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from cluster import Cluster, Member, Tell, alone
from disturb import KILLS, disturb
from torch import nn

torchft = pytest.importorskip("torchft", reason="torchft is not installed")

from torchft.local_sgd import DiLoCo, LocalSGD  # noqa: E402

from spotnik.errors import SpotnikError, StateError  # noqa: E402
from spotnik.torch.torchft import Manager  # noqa: E402
from spotnik.torch.torchft import _handover as handover  # noqa: E402
from spotnik.torch.torchft._state import packed, unpacked  # noqa: E402

Make = Callable[..., Cluster]
ROOT = Path(os.environ["SPOTNIK_ROOT"])


def network() -> nn.Module:
    return nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 2)).double()


def batch(seed: int) -> torch.Tensor:
    return torch.randn(4, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def loss_of(model: nn.Module, inputs: torch.Tensor) -> torch.Tensor:
    return (model(inputs) - inputs[:, :2]).square().mean()


def numbers(model: nn.Module) -> list[float]:
    return [float(x) for p in model.parameters() for x in p.detach().reshape(-1)]


class Replica:
    """A model that is different in each process before the first step, its optimiser and its manager."""

    def __init__(self, seed: int, make: Callable[..., torch.optim.Optimizer], **settings: Any) -> None:
        torch.manual_seed(seed)
        self.model = network()
        self.inner = make(self.model.parameters())
        self.manager = Manager(pg=None, load_state_dict=self.load, state_dict=self.save, min_replica_size=1, **settings)

    def load(self, state: dict[str, Any]) -> None:
        self.model.load_state_dict(state["model"])
        self.inner.load_state_dict(state["optimizer"])

    def save(self) -> dict[str, Any]:
        return {"model": self.model.state_dict(), "optimizer": self.inner.state_dict()}


def until(stop: str) -> float:
    return int(Path(stop).read_text()) if os.path.exists(stop) else float("inf")


def adam(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.Adam(parameters, lr=0.01)


# ---- DDP and Optimizer ----


def data_parallel(tell: Tell, stop: str, seed: int = 0, backwards: int = 1) -> None:
    """Every member has the same data in a step, so the number of members changes nothing."""
    replica = Replica(seed, adam)
    manager = replica.manager
    model = torchft.DistributedDataParallel(manager, replica.model, bucket_cap_mb=0.0001)
    optimizer = torchft.Optimizer(manager, replica.inner)
    while manager.current_step() < until(stop):
        step, was_whole = manager.current_step(), manager.is_participating()
        if step == 0:
            tell(weights=numbers(replica.model))
        optimizer.zero_grad()
        for turn in range(backwards):
            loss_of(model, batch(2 * manager.current_step() + turn)).backward()
        optimizer.step()
        if was_whole:
            assert manager.current_step() == step + 1, "a step was dropped"
        tell(step=manager.current_step(), members=manager.num_participants(), replay=not manager.is_participating())
    tell(done=manager.current_step(), weights=numbers(replica.model))
    manager.shutdown()


def plainly(first: list[float], steps: int, backwards: int) -> list[float]:
    model = network()
    nn.utils.vector_to_parameters(torch.tensor(first, dtype=torch.float64), model.parameters())
    optimizer = adam(model.parameters())
    for step in range(steps):
        optimizer.zero_grad()
        for turn in range(backwards):
            loss_of(model, batch(2 * step + turn)).backward()
        optimizer.step()
    return numbers(model)


def churn(cluster: Make, tmp_path: Path, program: Callable[..., Any], **settings: Any) -> tuple[Cluster, int]:
    """Three members, of which `KILLS` are lost one after the other and replaced; all have other weights at first."""
    job, stop, seeds = cluster(), tmp_path / "stop", iter(range(1000))

    def start() -> Member:
        return job.start(program, stop=str(stop), seed=next(seeds), **settings)

    return job, disturb(job, start, kills=KILLS, stop=stop)


@pytest.mark.parametrize("backwards", [1, 2])
def test_data_parallel_with_kills_equals_plain_pytorch(cluster: Make, tmp_path: Path, backwards: int) -> None:
    job, last = churn(cluster, tmp_path, data_parallel, backwards=backwards)
    ends = job.lines("done")
    assert [end["done"] for end in ends] == [last] * 3
    assert ends[0]["weights"] == ends[1]["weights"] == ends[2]["weights"]
    first = [line["weights"] for line in job.lines("weights") if "done" not in line]
    plain = [torch.tensor(plainly(one, last, backwards)) for one in first[:3]]
    assert any(torch.allclose(torch.tensor(ends[0]["weights"]), one, atol=1e-6) for one in plain)


def test_a_member_leaves_after_a_notice(cluster: Make, tmp_path: Path) -> None:
    job, stop = cluster(), tmp_path / "stop"
    job.gather(3)
    for seed in range(3):
        job.start(data_parallel, stop=str(stop), seed=seed)
    leaver, last = job.members[1], 0
    for member, line in job.events():
        if line.get("step") == 5 and member is leaver:
            job.kill(leaver, signal.SIGTERM)
        if "ended" in line and member is leaver:
            last = max(one["step"] for one in job.lines("step")) + 100  # which none has reached
            stop.with_suffix(".new").write_text(str(last))
            stop.with_suffix(".new").rename(stop)
    assert [member.status for member in job.members] == [0, 75, 0], job.errors()
    ends = job.lines("done")
    assert [end["done"] for end in ends] == [last] * 2
    assert ends[0]["weights"] == ends[1]["weights"]


def own_data(tell: Tell, seed: int, stop: str) -> None:
    """Every member has data of its own."""
    replica = Replica(seed, adam, init_sync=False)
    model = torchft.DistributedDataParallel(replica.manager, replica.model)
    optimizer = torchft.Optimizer(replica.manager, replica.inner)
    while replica.manager.current_step() < 5:
        optimizer.zero_grad()
        rank = replica.manager.participating_rank()
        assert rank is not None
        loss_of(model, batch(3 * replica.manager.current_step() + rank)).backward()
        optimizer.step()
    tell(weights=numbers(replica.model), batches=replica.manager.batches_committed())
    replica.manager.shutdown()


def test_the_average_is_that_of_all_members(cluster: Make) -> None:
    job = cluster()
    job.gather(3)
    for _ in range(3):
        job.start(own_data, seed=1, stop="")
    job.wait()
    ends = job.lines("weights")
    assert len(ends) == 3 and ends[0] == ends[1] == ends[2], job.errors()
    assert ends[0]["batches"] == 15
    torch.manual_seed(1)
    model = network()
    optimizer = adam(model.parameters())
    for step in range(5):
        optimizer.zero_grad()
        loss_of(model, torch.cat([batch(3 * step + rank) for rank in range(3)])).backward()
        optimizer.step()
    assert torch.allclose(torch.tensor(ends[0]["weights"]), torch.tensor(numbers(model)))


def quantized(tell: Tell, seed: int) -> None:
    """More calls than there are buckets, each with and without `should_quantize`."""
    replica = Replica(seed, adam, init_sync=False)
    manager = replica.manager
    manager.start_quorum()
    rank = manager.participating_rank()
    assert rank is not None
    generator = torch.Generator().manual_seed(seed)
    both = [torch.randn(1000, generator=generator) for _ in range(2 * 120)]
    means = [(a + b) / 2 for a, b in zip(both[::2], both[1::2])]
    sums = [one.clone() for one in both[rank::2]]
    sums += [one.clone() for one in both[rank::2]]
    works = [manager.allreduce(one, should_quantize=number < 120) for number, one in enumerate(sums)]
    works.append(manager.allreduce(counts := torch.tensor([rank]), should_quantize=True, reduce_op=dist.ReduceOp.SUM))
    for work in works:
        work.wait()
    assert manager.should_commit()
    errors = [float((one - mean).abs().max()) for one, mean in zip(sums, [*means, *means])]
    tell(rounded=errors[:120], exact=errors[120:], count=int(counts), bits=[one.sum().item() for one in sums])
    manager.shutdown()


def test_should_quantize_sends_a_byte_for_a_number(cluster: Make) -> None:
    job = cluster()
    job.gather(2)
    for _ in range(2):
        job.start(quantized, seed=1)
    job.wait()
    one, other = job.lines("rounded")
    assert one["bits"] == other["bits"] and one["count"] == other["count"] == 1, job.errors()
    assert max(one["exact"]) < 1e-6
    assert min(one["rounded"]) > 1e-4 and max(one["rounded"]) < 4 / 100


# ---- LocalSGD and DiLoCo ----


def outer(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, lr=0.7, momentum=0.9, nesterov=True)


def wrapped(how: str, replica: Replica) -> Any:
    if how == "local_sgd":
        return LocalSGD(replica.manager, replica.model, replica.inner, sync_every=3)
    model, buckets = replica.model, how == "diloco_in_buckets"
    parts = [model[0], model[2]]  # type: ignore[index]
    optimizers = [outer(part.parameters()) for part in parts]
    return DiLoCo(replica.manager, parts, replica.inner, optimizers, sync_every=6, use_bucketization=buckets)


def rarely(tell: Tell, how: str, stop: str, seed: int = 0, first: Any = None) -> None:
    """Three steps of its own between two synchronisations, on the same data as the others."""
    replica = Replica(seed, adam, use_async_quorum=False)
    manager = replica.manager
    if first is not None:
        nn.utils.vector_to_parameters(torch.tensor(first, dtype=torch.float64), replica.model.parameters())
    tell(weights=numbers(replica.model))
    with wrapped(how, replica):
        while manager.current_step() < until(stop):
            step, was_whole = manager.current_step(), manager.is_participating()
            for turn in range(3):
                replica.inner.zero_grad()
                loss_of(replica.model, batch(3 * step + turn)).backward()
                replica.inner.step()
            if was_whole:
                assert manager.current_step() == step + 1, "what was done between two synchronisations was dropped"
            tell(step=manager.current_step(), members=manager.num_participants(), replay=not manager.is_participating())
    tell(done=manager.current_step(), weights=numbers(replica.model))
    manager.shutdown()


@pytest.mark.parametrize("how", ["local_sgd", "diloco", "diloco_in_buckets"])
def test_rare_synchronisation_with_kills_equals_one_member(cluster: Make, tmp_path: Path, how: str) -> None:
    job, last = churn(cluster, tmp_path, rarely, how=how)
    ends = job.lines("done")
    assert [end["done"] for end in ends] == [last] * 3
    first = [line["weights"] for line in job.lines("weights") if "done" not in line]
    plain = []
    for number, weights in enumerate(first[:3]):
        folder = tmp_path / f"alone{number}"
        folder.mkdir()
        told = alone(rarely, folder, how=how, stop=str(tmp_path / "stop"), first=weights)
        plain.append(torch.tensor(told[-1]["weights"]))
    for end in ends:
        assert any(torch.allclose(torch.tensor(end["weights"]), one, atol=1e-6) for one in plain)


# ---- many tensors, errors, refusals ----


def many(tell: Tell, stop: str) -> None:
    """More all-reduces in a step than there are buckets, of several types."""
    replica = Replica(0, adam, init_sync=False)
    manager = replica.manager
    manager.start_quorum()
    kinds = (torch.float32, torch.float64, torch.bfloat16)
    tensors = [torch.full((2, 3), float(i % 50), dtype=kinds[i % 3]).T for i in range(400)]
    works = [manager.allreduce(tensor) for tensor in tensors]
    total = manager.allreduce(torch.ones(1, dtype=torch.int64), reduce_op=torch.distributed.ReduceOp.SUM)
    late: list[float] = []
    works[-1].get_future().then(lambda _: late.append(float(tensors[-1][0, 0])))
    assert all(work.wait() for work in works)
    assert late == [399 % 50], "a callback had not run when wait() returned"
    assert total.get_future().value().item() == 3
    assert all(tensor.eq(i % 50).all() for i, tensor in enumerate(tensors))
    tell(good=manager.should_commit(), participants=manager.num_participants())
    manager.shutdown()


def test_a_step_may_have_more_calls_than_buckets(cluster: Make) -> None:
    job = cluster()
    job.gather(3)
    for _ in range(3):
        job.start(many, stop="")
    job.wait()
    assert job.lines("good") == [{"good": True, "participants": 3}] * 3, job.errors()


def failing(tell: Tell, index: int) -> None:
    replica = Replica(index, adam)
    manager, optimizer = replica.manager, torchft.Optimizer(replica.manager, replica.inner)
    model = torchft.DistributedDataParallel(manager, replica.model)
    answers = []
    for turn in range(5):
        optimizer.zero_grad()
        if turn == 1 and index == 1:
            manager.report_error(ValueError("a batch that cannot be read"))  # all drop the step
        loss_of(model, batch(turn)).backward()
        if turn == 3 and index == 2:
            manager.report_error(ValueError("found too late"))  # this one alone does not apply it, and is healed
        step = manager.current_step()
        optimizer.step()
        answers.append(manager.current_step() - step)
    optimizer.zero_grad()  # the one that was left behind receives the state
    manager.should_commit()
    tell(answers=answers, whole=manager.is_participating(), weights=numbers(replica.model))
    manager.shutdown()


def test_a_reported_error_drops_the_step_of_all_or_heals_one(cluster: Make) -> None:
    job = cluster()
    job.gather(3)
    for index in range(3):
        job.start(failing, index=index)
    job.wait()
    ends = job.lines("answers")
    assert [end["answers"] for end in ends] == [[1, 0, 1, 1, 1]] * 3, job.errors()
    assert all(end["whole"] for end in ends)
    assert ends[0]["weights"] == ends[1]["weights"] == ends[2]["weights"]


def attempt(tell: Tell, call: str) -> None:
    manager = Manager(state_dict=dict, load_state_dict=lambda _: None)
    try:
        eval(call, {"Manager": Manager, "manager": manager, "torch": torch, "torchft": torchft})
    except (SpotnikError, TypeError, ValueError) as error:
        tell(said=str(error))
    else:
        tell(said="nothing")


@pytest.mark.parametrize(
    ("call", "words"),
    [
        ("Manager(world_size=2)", "one process is one replica"),
        ("Manager(world_size_mode=torchft.manager.WorldSizeMode.FIXED_WITH_SPARES)", "spares are not there"),
        ("Manager(lighthouse='x')", "unexpected arguments: lighthouse"),
        ("manager.should_commit()", r"call start_quorum\(\) first"),
        ("(manager.start_quorum(), manager.allreduce(torch.ones(1, dtype=torch.int32)))", "floating point"),
        (
            "(manager.start_quorum(), manager.allreduce(torch.ones(1), False, torch.distributed.ReduceOp.MAX))",
            "use AVG or SUM",
        ),
        ("manager.register_state_dict_fn('default', dict, dict)", "use another key"),
    ],
)
def test_refusals_say_what_to_do(tmp_path: Path, call: str, words: str) -> None:
    (told,) = alone(attempt, tmp_path, call=call)
    assert re.search(words, told["said"]), told


# ---- the state ----


def fragile(tell: Tell, seed: int, folder: str, stage: str) -> None:
    """The first member that gives its state is lost on the way."""
    replica = Replica(seed, adam)
    manager, optimizer = replica.manager, torchft.Optimizer(replica.manager, replica.inner)
    handover._CHUNK = 200
    whole = getattr(handover.Handover, stage)

    def once(self: Any) -> Any:
        control = self._control
        if control.donor == self.uid and (control.state_sent > 400 or stage == "_measure"):
            with contextlib.suppress(FileExistsError):
                (Path(folder) / "lost").touch(exist_ok=False)
                os.kill(os.getpid(), signal.SIGKILL)
        return whole(self)

    setattr(handover.Handover, stage, once)
    for turn in range(3):
        optimizer.zero_grad()
        loss_of(replica.model, batch(turn)).backward()
        for parameter in replica.model.parameters():
            manager.allreduce(parameter.grad)
        optimizer.step()
    tell(weights=numbers(replica.model), whole=manager.is_participating(), step=manager.current_step())
    manager.shutdown()


@pytest.mark.parametrize("stage", ["_measure", "_copy"])
def test_another_gives_its_state_when_the_donor_is_lost(cluster: Make, stage: str) -> None:
    job = cluster()
    job.gather(4)
    for seed in range(4):
        job.start(fragile, seed=seed, folder=str(job.folder), stage=stage)
    job.wait()
    ends = job.lines("whole")
    assert sorted(member.status for member in job.members) == [-signal.SIGKILL, 0, 0, 0], job.errors()
    assert all(end["whole"] and end["step"] == 3 and end["weights"] == ends[0]["weights"] for end in ends)


class Custom:
    """A class that nobody has called harmless."""


def strange(tell: Tell) -> None:
    manager = Manager(state_dict=lambda: {"custom": Custom()}, load_state_dict=lambda _: None)
    try:
        while True:
            manager.start_quorum()
            manager.should_commit()
    except SpotnikError as error:
        tell(said=str(error))


def test_a_state_that_could_run_code_is_refused(cluster: Make) -> None:
    job = cluster()
    job.gather(2)
    for _ in range(2):
        job.start(strange)
    job.wait()
    said = job.lines("said")
    assert len(said) == 2, job.errors()  # the second one as the next donor
    assert all(
        re.match(r"state_dict\(\)\['default'\]\['custom'\] is of type Custom.*torch.from_numpy", one["said"])
        for one in said
    )


def test_a_state_comes_as_it_went() -> None:
    shared = torch.randn(3, 2, dtype=torch.bfloat16).T
    tree = {
        "model": collections.OrderedDict(weight=nn.Parameter(torch.randn(2, 3)), other=shared),
        0: [1, True, None, -2.5, float("inf"), "text", 1 << 70],
        (1, "a"): (torch.zeros(0), torch.tensor(3), torch.tensor([1 + 2j]).conj(), torch.tensor([True, False])),
        "nested": [{"a": {}}, [], ()],
    }
    come = unpacked(packed(tree))
    assert list(come) == list(tree) and come[0] == tree[0] and come["nested"] == tree["nested"]
    assert type(come[0][1]) is bool and type(come[(1, "a")]) is tuple
    pairs = [*zip(come[(1, "a")], tree[(1, "a")]), *((come["model"][key], tree["model"][key]) for key in tree["model"])]
    for ours, theirs in pairs:
        assert ours.dtype == theirs.dtype and ours.shape == theirs.shape and torch.equal(ours, theirs.detach())
    data = packed(tree)
    data[8] ^= 1
    with pytest.raises(StateError, match="is damaged"):
        unpacked(data)


# ---- the guide ----


def recipe(tell: Tell) -> None:
    page = (ROOT / "docs/guide/torchft.md").read_text()
    (code,) = re.findall(r"```python\n(.*?)```", page, flags=re.S)
    told = {"print": lambda step, members: tell(step=step, members=members)}
    done: dict[str, Any] = {"__name__": "__main__", **told}
    exec(compile(code, "torchft.md", "exec"), done)
    tell(last=done["manager"].current_step(), weights=numbers(done["net"]))


def test_the_recipe_of_the_guide_survives_a_kill(cluster: Make) -> None:
    job = cluster()
    job.gather(3)
    for _ in range(3):
        job.start(recipe)
    for member, line in job.events():
        if line.get("step") == 50 and len([one for one in job.lines("step") if one["step"] == 50]) == 1:
            job.kill(next(other for other in job.members if other is not member))
    assert not job.errors()
    ends = job.lines("last")
    assert [end["last"] for end in ends] == [200, 200]
    assert ends[0]["weights"] == ends[1]["weights"]
    for member in job.members:
        steps = [line["step"] for line in member.lines if "step" in line]
        assert steps == list(range(1, len(steps) + 1)), "a step was dropped"
