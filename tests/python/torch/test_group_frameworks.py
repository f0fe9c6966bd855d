# SPDX-License-Identifier: Apache-2.0
"""Frameworks that shard a model over the processes of a group: Hugging Face, Accelerate, Lightning; on the CPU by Gloo.

Claims, of each: two groups of two train as one process does, with the same number of samples in a step; a killed
process takes its group along, and a new group takes the state; a job resumes from its checkpoint; one process writes
files; what a framework cannot do in a group is refused with words.
"""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any, Optional

import pytest
import torch
from cluster import Cluster, Member, Tell
from cluster import alone as run_alone
from programs import data, network
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.utils.data import DataLoader, Subset

import spotnik.torch as spotnik
from spotnik import Config, StateError

accelerate = pytest.importorskip("accelerate", reason="accelerate is not installed")
transformers = pytest.importorskip("transformers", reason="transformers is not installed")
lightning = pytest.importorskip("lightning", reason="lightning is not installed")

from spotnik import accelerate as spotnik_accelerate  # noqa: E402  (once here, not in every process)
from spotnik import hf as spotnik_hf  # noqa: E402
from spotnik import lightning as spotnik_lightning  # noqa: E402

Make = Callable[..., Cluster]
BATCH = 20


def stand(place: Optional[str], port: int) -> int:
    """Set what `spotnik run --group` sets. Returns the number of processes."""
    if place is None:
        return 1
    _, rank, size = place.split(":")
    names = {"SPOTNIK_GROUP": place, "RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": size, "LOCAL_WORLD_SIZE": size}
    os.environ.update(names, MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    return int(size)


def shard_on_cpus() -> None:
    """Have accelerate use its FSDP plugin here: it does so for GPUs only, and for these just as below."""
    state: Any = accelerate.state.AcceleratorState
    made = state.__init__

    def make(self: Any, *given: Any, fsdp_plugin: Any = None, **more: Any) -> None:
        made(self, *given, fsdp_plugin=fsdp_plugin, **more)
        if fsdp_plugin is not None:
            self.distributed_type, self.fsdp_plugin = accelerate.DistributedType.FSDP, fsdp_plugin

    state.__init__ = make


def check_cut(model: nn.Module, is_cut: bool) -> None:
    assert is_cut == all(hasattr(one, "placements") for one in model.parameters())


def tell_end(tell: Tell, model: nn.Module, **more: Any) -> None:
    whole = [getattr(one, "full_tensor", lambda one=one: one)().tolist() for one in model.parameters()]
    tell(done=True, parameters=whole, **more)


# ---- the programs ----


class Classifier(nn.Module):
    """Takes and returns what a Trainer expects."""

    def __init__(self) -> None:
        super().__init__()
        self.net = network(dtype=torch.float32)

    def forward(self, x: torch.Tensor, labels: torch.Tensor, **items: Any) -> dict[str, torch.Tensor]:
        logits = self.net(x)
        count = items.get("num_items_in_batch")
        loss = nn.functional.cross_entropy(logits, labels, reduction="mean" if count is None else "sum")
        return {"loss": loss if count is None else loss / count, "logits": logits}


#: accelerate makes a whole state dictionary of what lies on GPUs; here each process saves its shards
FSDP = {"transformer_layer_cls_to_wrap": ["Linear"], "state_dict_type": "SHARDED_STATE_DICT"}


class Told(transformers.TrainerCallback):  # type: ignore[misc, unused-ignore]
    """Tells of steps, evaluations and files."""

    def __init__(self, tell: Tell) -> None:
        self.tell = tell

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self.tell(step=state.global_step)

    def on_evaluate(self, args: Any, state: Any, control: Any, metrics: Any, **_: Any) -> None:
        self.tell(evaluated=state.global_step, loss=metrics["eval_loss"])

    def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self.tell(saved=state.global_step, folder=args.output_dir)


def trainer(
    tell: Tell,
    folder: str,
    place: Optional[str] = None,
    port: int = 0,
    epochs: int = 4,
    accumulate: int = 1,
    shards: bool = True,
    **settings: Any,
) -> None:
    size = stand(place, port)
    shard_on_cpus()
    transformers.logging.set_verbosity_error()
    arguments = transformers.TrainingArguments(
        output_dir=folder,
        use_cpu=True,
        ddp_backend="gloo" if size > 1 else None,
        fsdp=size > 1 and shards,
        fsdp_config=FSDP if size > 1 and shards else None,
        num_train_epochs=epochs,
        per_device_train_batch_size=BATCH // accumulate,
        gradient_accumulation_steps=accumulate,
        learning_rate=0.01,
        max_grad_norm=0.3,
        eval_strategy="epoch",
        save_strategy="epoch",
        report_to="none",
        disable_tqdm=True,
        logging_strategy="no",
        dataloader_pin_memory=False,
    )
    held = [{"x": x, "labels": y} for x, y in zip(*(t for t in data(torch.float32).tensors))]
    made = transformers.Trainer(
        Classifier(),
        arguments,
        train_dataset=[{**one, "labels": one["labels"] * 0 - 100} if n % 5 == 0 else one for n, one in enumerate(held)],
        eval_dataset=held[:40],
        callbacks=[spotnik_hf.Callback(seed=7, **settings), Told(tell)],
    )
    made.train()
    check_cut(made.model, size > 1 and shards)
    tell_end(tell, made.model, steps=made.state.global_step, rate=made.lr_scheduler.get_last_lr()[0])


def accelerated(
    tell: Tell,
    folder: str,
    place: Optional[str] = None,
    port: int = 0,
    epochs: int = 4,
    accumulate: int = 1,
    shards: bool = True,
    **settings: Any,
) -> None:
    size = stand(place, port)
    shard_on_cpus()
    plugin = None
    if size > 1 and shards:
        plugin = accelerate.FullyShardedDataParallelPlugin(
            fsdp_version=2, auto_wrap_policy="transformer_based_wrap", transformer_cls_names_to_wrap=["Linear"]
        )
    accelerator = accelerate.Accelerator(cpu=True, fsdp_plugin=plugin, gradient_accumulation_steps=accumulate)
    model = network(dtype=torch.float32)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.99)
    loader = DataLoader(data(torch.float32), batch_size=BATCH // accumulate, shuffle=True)
    held = DataLoader(Subset(data(torch.float32), range(40)), batch_size=10)
    model, optimizer, loader, held, schedule = spotnik_accelerate.prepare(
        accelerator, model, optimizer, loader, held, schedule, seed=7, **settings
    )
    check_cut(model, size > 1 and shards)
    for _ in spotnik.epochs(epochs):
        model.train()
        for x, y in loader:
            with accelerator.accumulate(model):
                accelerator.backward(nn.functional.cross_entropy(model(x), y))
                if accelerator.sync_gradients:
                    accelerator.clip_grad_norm_(model.parameters(), 0.3)
                optimizer.step()
                schedule.step()
                optimizer.zero_grad()
            tell(step=spotnik.step(), main=accelerator.is_main_process)
        model.eval()
        with torch.no_grad():
            seen = [accelerator.gather_for_metrics((model(x).argmax(1) == y).float()) for x, y in held]
        tell(evaluated=spotnik.step(), loss=len(torch.cat(seen)))
    tell_end(tell, model, steps=spotnik.step(), rate=schedule.get_last_lr()[0])


class Task(lightning.LightningModule):  # type: ignore[misc, unused-ignore]
    def __init__(self, tell: Tell, shards: bool) -> None:
        super().__init__()
        self.net, self.tell, self.shards = network(dtype=torch.float32), tell, shards

    def configure_model(self) -> None:
        if self.shards and not hasattr(self.net[0].weight, "placements"):
            mesh = self.device_mesh["data_parallel"]
            for layer in self.net:
                if isinstance(layer, nn.Linear):
                    fully_shard(layer, mesh=mesh)
            fully_shard(self.net, mesh=mesh)

    def training_step(self, batch: Any, _: int) -> torch.Tensor:
        return nn.functional.cross_entropy(self.net(batch[0]), batch[1])

    def validation_step(self, batch: Any, _: int) -> None:
        self.log("loss", nn.functional.cross_entropy(self.net(batch[0]), batch[1]), sync_dist=self.shards)

    def configure_optimizers(self) -> Any:
        optimizer = torch.optim.AdamW(self.parameters(), lr=0.01)
        return [optimizer], [{"scheduler": torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.99), "interval": "step"}]

    def on_train_batch_end(self, outputs: Any, batch: Any, batch_idx: int) -> None:
        self.tell(step=self.global_step, main=self.trainer.is_global_zero)

    def on_validation_end(self) -> None:
        if not self.trainer.sanity_checking:
            self.tell(evaluated=self.global_step, loss=float(self.trainer.callback_metrics["loss"]))


def lit(
    tell: Tell,
    folder: str,
    place: Optional[str] = None,
    port: int = 0,
    epochs: int = 4,
    accumulate: int = 1,
    **settings: Any,
) -> None:
    size = stand(place, port)
    if size > 1:
        strategy: Any = spotnik_lightning.ModelParallelStrategy(size, 1, seed=7, **settings)
    else:
        strategy = spotnik_lightning.Strategy(seed=7, **settings)
    task = Task(tell, size > 1)
    made = lightning.Trainer(
        accelerator="cpu",
        devices=size,
        strategy=strategy,
        max_epochs=epochs,
        accumulate_grad_batches=accumulate,
        gradient_clip_val=0.3,
        default_root_dir=folder,
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    loader = DataLoader(data(torch.float32), batch_size=BATCH // accumulate, shuffle=True)
    made.fit(task, loader, DataLoader(Subset(data(torch.float32), range(40)), batch_size=10))
    tell_end(tell, task, steps=made.global_step, rate=made.optimizers[0].param_groups[0]["lr"])


# ---- the tests ----


def start_group(job: Cluster, program: Callable[..., None], name: str, **settings: Any) -> list[Member]:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = one.getsockname()[1]
    at = {"port": port, "folder": str(job.folder / "out"), **settings}
    return [job.start(program, place=f"{name}-{job.folder}:{rank}:2", **at) for rank in range(2)]


def difference(one: dict[str, Any], other: dict[str, Any]) -> float:
    pairs = zip(one["parameters"], other["parameters"])
    return max(float((torch.tensor(a) - torch.tensor(b)).abs().max()) for a, b in pairs)


def check_ends(job: Cluster, processes: int) -> dict[str, Any]:
    assert not job.errors(), job.errors()
    ends = job.lines("done")
    assert len(ends) == processes and all(end == ends[0] for end in ends)
    return ends[0]


def oracle(program: Callable[..., None], folder: Path, **settings: Any) -> list[dict[str, Any]]:
    (folder / "alone").mkdir()
    return run_alone(program, folder / "alone", folder=str(folder / "alone" / "out"), **settings)


@pytest.mark.parametrize(
    ("program", "settings"),
    [
        (trainer, {}),
        (trainer, {"accumulate": 2}),
        (trainer, {"shards": False}),
        (accelerated, {}),
        (accelerated, {"accumulate": 2}),
        (accelerated, {"shards": False, "accumulate": 2}),
        (lit, {}),
        (lit, {"accumulate": 2}),
    ],
)
def test_two_groups_train_as_one_process(
    cluster: Make, program: Callable[..., None], settings: dict[str, Any], tmp_path: Path
) -> None:
    calm = oracle(program, tmp_path, **{key: value for key, value in settings.items() if key != "shards"})
    job = cluster()
    job.gather(2)
    for name in "ab":
        start_group(job, program, name, **settings)
    job.wait()
    end = check_ends(job, 4)
    assert end["steps"] == calm[-1]["steps"] >= 40
    assert end["rate"] == calm[-1]["rate"]
    assert difference(end, calm[-1]) < 1e-5
    seen = [(line["evaluated"], pytest.approx(line["loss"], abs=1e-5)) for line in calm if "evaluated" in line]
    for member in job.members:
        assert [(line["evaluated"], line["loss"]) for line in member.lines if "evaluated" in line] == seen
    mains = [line["step"] for line in job.lines("main") if line["main"]]
    assert mains == [line["step"] for line in job.members[0].lines if "main" in line] or not mains


@pytest.mark.parametrize("program", [trainer, accelerated, lit])
def test_a_killed_process_takes_its_group_along(cluster: Make, program: Callable[..., None]) -> None:
    job = cluster()
    job.gather(2)
    first, second = (start_group(job, program, name, epochs=12) for name in "ab")
    third: list[Member] = []
    for member, line in job.events():
        if member is second[1] and line.get("step") == 6:
            job.kill(member)
        if not third and all(one.status is not None for one in second):
            third = start_group(job, program, "c", epochs=12)
    assert [one.status for one in second] == [-9, -9]
    assert [one.status for one in first + third] == [0] * 4
    check_ends(job, 4)


@pytest.mark.parametrize("program", [trainer, accelerated, lit])
def test_a_job_resumes(cluster: Make, program: Callable[..., None], tmp_path: Path) -> None:
    calm = oracle(program, tmp_path, epochs=30)[-1]
    kept = {"checkpoint": str(tmp_path / "kept"), "config": Config(checkpoint_steps=1), "epochs": 30}
    before, after = cluster(), cluster()
    group = start_group(before, program, "a", **kept)
    for _ in before.events():
        if group[1].running and list((tmp_path / "kept").glob("*/manifest.json")):
            before.kill(group[1])
    assert [one.status for one in group] == [-9, -9]
    start_group(after, program, "b", **kept)
    after.wait()
    assert min(line["step"] for line in after.lines("step")) > 1, "it began anew"
    assert difference(check_ends(after, 2), calm) < 1e-5


# ---- refusals ----


def first_kind(tell: Tell, place: str, port: int, folder: str) -> None:
    stand(place, port)
    shard_on_cpus()
    plugin = accelerate.FullyShardedDataParallelPlugin(fsdp_version=1)
    spotnik_accelerate.check(accelerate.Accelerator(cpu=True, fsdp_plugin=plugin))


def several(tell: Tell, place: str, port: int, folder: str) -> None:
    stand(place, port)
    models = [network(), network()]
    optimizers = [torch.optim.SGD(model.parameters(), lr=0.1) for model in models]
    spotnik_accelerate.prepare(accelerate.Accelerator(cpu=True), *models, *optimizers)


def stopping(tell: Tell, place: str, port: int, folder: str) -> None:
    stand(place, port)
    strategy: Any = spotnik_lightning.ModelParallelStrategy(2, 1)
    stops = lightning.pytorch.callbacks.EarlyStopping("loss")
    made = lightning.Trainer(accelerator="cpu", devices=2, strategy=strategy, logger=False, callbacks=[stops])
    made.fit(Task(tell, True), DataLoader(data(torch.float32), batch_size=BATCH))


@pytest.mark.parametrize(
    ("program", "words"),
    [
        (first_kind, r"accelerate's FSDP keeps parts .* say FullyShardedDataParallelPlugin\(fsdp_version=2\)"),
        (several, "make one module of them"),
        (stopping, "EarlyStopping needs a number .* end by max_epochs"),
    ],
)
def test_what_a_framework_cannot_do_in_a_group(cluster: Make, program: Callable[..., None], words: str) -> None:
    job = cluster()
    start_group(job, program, "a")
    for _ in job.events():
        pass
    assert [one.status for one in job.members] == [1, 1]
    for line in job.lines("error"):
        assert re.search(words, line["text"]), line


def test_the_strategy_of_single_processes_names_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPOTNIK_GROUP", "a:0:4")
    with pytest.raises(StateError, match=r"strategy=spotnik\.lightning\.ModelParallelStrategy"):
        spotnik_lightning.Strategy()
