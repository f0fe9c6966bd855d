# SPDX-License-Identifier: Apache-2.0
"""The recipes of docs/guide/recipes.md, cut out: alone, with three, with a kill, after a total loss.

The same text runs without Spotnik, in a process that has a stand-in of that name: three members end as that does.
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import itertools
import os
import re
import signal
import sys
import time
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Optional

import ledger
import pytest
import torch
from cluster import Cluster, Tell, alone
from disturb import tell_to_stop, total_loss
from ledger import Share, places
from operator_names import name_operators
from programs import last_step
from torch.utils.data import BatchSampler, DataLoader, TensorDataset

import spotnik
import spotnik.torch as members

Make = Callable[..., Cluster]
PAGE = Path(os.environ["SPOTNIK_ROOT"]) / "docs/guide/recipes.md"
SAMPLES, BATCH, SEED, ROUNDING = 36, 12, 7, 1e-5
EPOCH = SAMPLES // BATCH  #: steps of it
LOST = 10  #: the last step of members that are killed together: the second of an epoch after a checkpoint


def recipes(heading: str) -> list[str]:
    """The programs below a heading."""
    part = PAGE.read_text().split(f"\n## {heading}\n")[1].split("\n## ")[0]
    return re.findall(r"```python\n(.*?)```", part, flags=re.DOTALL)


# ---- the same recipe without Spotnik ----


class Plain(types.ModuleType):
    """In place of spotnik.torch: one process, which takes the batches of the job."""

    def __init__(self, batches: Iterator[list[int]]) -> None:
        super().__init__("spotnik.torch")
        self.batches, self.taken, self.drawn = batches, 0, 0

    def prepare(self, *given: Any, **_: Any) -> Any:
        return given

    def shard(self, loader: DataLoader[Any]) -> Any:
        return InOrder(loader, self)

    def epochs(self, count: int) -> Iterator[int]:
        return iter(range(count))

    def weigh(self, _: Any) -> None:
        pass

    ghost_batchnorm = staticmethod(members.ghost_batchnorm)

    def step(self) -> int:
        return self.taken

    def epoch(self) -> int:
        return 0

    def samples(self) -> int:
        return self.drawn

    def hide_torchrun(self) -> None:
        pass

    def leave(self) -> None:
        pass


class InOrder:
    """A loader that deals the job's batches."""

    def __init__(self, loader: DataLoader[Any], owner: Plain) -> None:
        self.loader, self.owner = loader, owner

    def __len__(self) -> int:
        return len(self.loader)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.loader, name)

    def __iter__(self) -> Iterator[Any]:
        for batch in itertools.islice(self.owner.batches, EPOCH):
            self.owner.taken += 1
            self.owner.drawn += len(batch)
            yield self.loader.collate_fn([self.loader.dataset[i] for i in batch])


def without_spotnik(shares: list[tuple[int, list[Share]]], recipe: str) -> None:
    """For this process, a fork of the test's, which takes these samples in its steps."""
    batches = iter(ledger.batches(shares, SAMPLES, SEED))
    if "spotnik.hf" in recipe:  # the Trainer's own loader deals them
        BatchSampler.__iter__ = lambda _: itertools.islice(batches, EPOCH)  # type: ignore[assignment, method-assign]
        hf: Any = importlib.import_module("spotnik.hf")
        hf.Callback = importlib.import_module("transformers").TrainerCallback
    spotnik.torch = sys.modules["spotnik.torch"] = Plain(batches)  # type: ignore[assignment]


# ---- what the recipes are given ----


def language_model() -> Any:
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(1)
    shape = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
    return LlamaForCausalLM(LlamaConfig(vocab_size=40, bos_token_id=1, eos_token_id=2, pad_token_id=0, **shape))


def tokenizer() -> Any:
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    words = {word: number for number, word in enumerate(["<pad>", "<s>", "</s>", "<unk>", *map(str, range(36))])}
    plain = Tokenizer(models.WordLevel(words, unk_token="<unk>"))
    plain.pre_tokenizer = pre_tokenizers.Whitespace()
    marks = {"pad_token": "<pad>", "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
    return PreTrainedTokenizerFast(tokenizer_object=plain, **marks)


def sentence(number: int) -> str:
    """Of 2 to 7 words: batches have padding."""
    return " ".join(str((number * 7 + i * i) % 36) for i in range(2 + number % 6))


def trained_by(config: str, **more: Any) -> dict[str, Any]:
    """What a Trainer of a small test is given."""
    module = importlib.import_module(config.partition(".")[0])
    kind = getattr(module, config.partition(".")[2])
    settings = {
        "use_cpu": True,
        "bf16": False,
        "learning_rate": 1e-2,
        "report_to": "none",
        "save_strategy": "no",
        "disable_tqdm": True,
        "dataloader_pin_memory": False,
        "seed": SEED,
        **more,
    }
    return {"settings": settings, "config": kind}


def texts() -> dict[str, Any]:
    import datasets

    data = datasets.Dataset.from_dict({"text": [sentence(i) for i in range(SAMPLES)]})
    return {"model": language_model(), "tokenizer": tokenizer(), "data": data, **trained_by("trl.SFTConfig")}


def preferences() -> dict[str, Any]:
    import datasets
    import transformers

    kinds = {"prompt": 0, "chosen": 1, "rejected": 2}
    data = datasets.Dataset.from_dict({k: [sentence(i + at) for i in range(SAMPLES)] for k, at in kinds.items()})
    folder = f"llama-{os.getpid()}"  # the Trainer loads the model a second time, to compare with
    language_model().save_pretrained(folder)
    return {
        "model": transformers.LlamaForCausalLM.from_pretrained(folder),
        "tokenizer": tokenizer(),
        "data": data,
        **trained_by("trl.DPOConfig"),
    }


def labelled_tokens() -> dict[str, Any]:
    ids = torch.arange(SAMPLES * 8).reshape(SAMPLES, 8) % 36 + 4
    labels = ids.clone()
    for row in range(SAMPLES):
        labels[row, 2 + row % 6 :] = -100
    rows = [{"input_ids": a, "labels": b} for a, b in zip(ids, labels)]
    return {"model": language_model(), "loader": DataLoader(rows, batch_size=BATCH, shuffle=True)}  # type: ignore[arg-type]


def over_four_bits() -> dict[str, Any]:
    """QLoRA: every layer of the base is of 4 bits."""
    given = labelled_tokens()
    for layer in given["model"].model.layers:
        for owner in (layer.self_attn, layer.mlp):
            for name, one in list(owner.named_children()):
                if isinstance(one, torch.nn.Linear):
                    setattr(owner, name, quantise(one, "nf4"))
    return given


def sentences() -> dict[str, Any]:
    import datasets
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.models import Pooling, Transformer
    from transformers import BertConfig, BertModel

    folder = f"bert-{os.getpid()}"
    torch.manual_seed(1)
    shape = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
    quiet = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    BertModel(BertConfig(vocab_size=40, **shape, **quiet)).save_pretrained(folder)
    tokenizer().save_pretrained(folder)
    model = SentenceTransformer(modules=[Transformer(folder), Pooling(16)], device="cpu")
    columns = {k: [sentence(i + at) for i in range(SAMPLES)] for k, at in (("sentence1", 0), ("sentence2", 1))}
    data = datasets.Dataset.from_dict({**columns, "score": [i % 5 / 4 for i in range(SAMPLES)]})
    more = trained_by("sentence_transformers.SentenceTransformerTrainingArguments")
    return {"model": model, "data": data, **more}


def numbers() -> dict[str, Any]:
    torch.manual_seed(1)
    x = torch.randn(SAMPLES, 6)
    loader = DataLoader(TensorDataset(x, (x[:, 0] > 0).long()), batch_size=BATCH, shuffle=True)
    model = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2))
    return {"model": model, "loader": loader}


def pictures() -> dict[str, Any]:
    torch.manual_seed(1)
    x = torch.randn(SAMPLES, 3, 32, 32)
    return {"loader": DataLoader(TensorDataset(x, (x.mean((1, 2, 3)) > 0).long()), batch_size=BATCH, shuffle=True)}


def captions() -> dict[str, Any]:
    import open_clip

    torch.manual_seed(1)
    sight = {"layers": 1, "width": 32, "head_width": 16, "patch_size": 16, "image_size": 32}
    text = {"context_length": 8, "vocab_size": 50, "width": 32, "heads": 2, "layers": 1}
    pairs = TensorDataset(torch.randn(SAMPLES, 3, 32, 32), torch.randint(1, 50, (SAMPLES, 8)))
    model = open_clip.CLIP(16, sight, text)
    return {"model": model, "loader": DataLoader(pairs, batch_size=BATCH, shuffle=True)}


def composed() -> dict[str, Any]:
    from composer.models import ComposerModel

    class Classifier(ComposerModel):
        def __init__(self, inside: torch.nn.Module) -> None:
            super().__init__()
            self.inside = inside

        def forward(self, batch: Any) -> Any:
            return self.inside(batch[0])

        def loss(self, outputs: Any, batch: Any) -> Any:
            return torch.nn.functional.cross_entropy(outputs, batch[1])

    given = numbers()
    return {"model": Classifier(given["model"]), "loader": given["loader"]}


def photographs() -> dict[str, Any]:
    """Of two classes, in files, and a network in the words of ultralytics. Nothing is drawn at random."""
    from PIL import Image
    from ultralytics.utils import DEFAULT_CFG

    random = torch.Generator().manual_seed(1)
    for number in range(SAMPLES + 4):
        part = "train" if number < SAMPLES else "val"
        folder = Path("pictures") / part / ("dark" if number % 2 else "light")
        folder.mkdir(parents=True, exist_ok=True)
        pixels = torch.randint(0, 128, (32, 32, 3), generator=random) + (0 if number % 2 else 100)
        Image.fromarray(pixels.to(torch.uint8).numpy()).save(folder / f"{number}.png")
    Path("tiny.yaml").write_text(
        "nc: 2\nbackbone:\n- [-1, 1, Conv, [8, 3, 2]]\n- [-1, 1, Conv, [8, 3, 2]]\n"
        "head:\n- [-1, 1, Classify, [nc]]\n"
    )
    plainly = {"imgsz": 32, "workers": 0, "amp": False, "plots": False, "device": "cpu", "warmup_epochs": 0}
    plainly |= {"scale": 0.0, "fliplr": 0.0, "erasing": 0.0, "auto_augment": None, "dropout": 0.0, "verbose": False}
    plainly |= {"hsv_h": 0.0, "hsv_s": 0.0, "hsv_v": 0.0, "project": str(Path.cwd()), "exist_ok": True}
    for name, value in plainly.items():
        setattr(DEFAULT_CFG, name, value)
    return {}


@dataclasses.dataclass(frozen=True)
class Recipe:
    heading: str
    needs: str
    given: Callable[[], dict[str, Any]]
    number: int = 0  # of those below the heading
    per_member: bool = False  # a step grows with the job
    double: bool = False  # Adam makes steps of what rounding leaves of gradients that are 0, those of keys' biases

    @property
    def text(self) -> str:
        return recipes(self.heading)[self.number].replace('"out"', '"out", **settings')


RECIPES = {
    "trl sft": Recipe("TRL", "trl", texts),
    "trl dpo": Recipe("TRL", "trl", preferences, number=1),
    "peft": Recipe("peft", "peft", labelled_tokens),
    "qlora": Recipe("peft", "bitsandbytes", over_four_bits),
    "sentence-transformers": Recipe("sentence-transformers", "sentence_transformers", sentences, double=True),
    "fastai": Recipe("fastai", "fastai", numbers),
    "timm": Recipe("timm", "timm", pictures, double=True),
    "open_clip": Recipe("open_clip", "open_clip", captions, per_member=True),
    "composer": Recipe("MosaicML Composer", "composer", composed),
    "ultralytics": Recipe("ultralytics", "ultralytics", photographs),
}


def weights(model: Any) -> list[float]:
    return [float(p.detach().double().sum()) for p in model.parameters() if p.requires_grad]


def trained(names: dict[str, Any]) -> Iterator[torch.Tensor]:
    """What a recipe has trained, and an average of it."""
    owner = names.get("learn") or names.get("trainer")
    model = owner.model if owner else names["model"]
    yield from (p for p in model.parameters() if p.requires_grad)
    if "average" in names:
        yield from names["average"].parameters()
    if hasattr(owner, "ema"):
        yield from owner.ema.ema.parameters()


def undisturbed(epochs: int) -> list[tuple[int, list[Share]]]:
    """The samples of each step, in a job that loses no member."""
    return [(epoch, [((at, at + BATCH),)]) for epoch in range(epochs) for at in range(0, SAMPLES, BATCH)]


def run(
    tell: Tell,
    name: str,
    folder: str,
    shares: Optional[list[tuple[int, list[Share]]]] = None,
    epochs: int = 2,
    last: int = 0,
    kept: str = "",
) -> None:
    """The recipe as it stands on the page, but for its number of epochs. With `shares`: one process, which takes these.

    It goes no further than step `last`.
    """
    os.makedirs(folder, exist_ok=True)
    os.chdir(folder)
    recipe = RECIPES[name]
    torch.set_default_dtype(torch.float64 if recipe.double else torch.float32)
    if shares:
        epochs = len(shares) // EPOCH
        without_spotnik(shares, recipe.text)
    else:
        members.hide_torchrun()
        watch(tell, last, kept)
    names: dict[str, Any] = {"torch": torch, **recipe.given()}
    text = recipe.text
    for said in ("epochs(2)", "num_train_epochs=2", "num_epochs=2", "fit_one_cycle(2,", '"2ep"', '"epochs": 2'):
        text = text.replace(said, said.replace("2", str(epochs)))
    exec(compile(text, name, "exec"), names)
    result = [p.detach().clone() for p in trained(names)]
    torch.save(result, "final.pt")
    tell(done=[float(p.double().sum()) for p in result])


def watch(tell: Tell, last: int, kept: str) -> None:
    """Tell of steps, and fix the seed: what the recipes leave to prepare().

    It goes no further than step `last`, of which it tells when the folder `kept` has a checkpoint.
    """
    prepare = members.prepare

    def watched(*given: Any, **settings: Any) -> Any:
        def committed(report: members.StepReport) -> None:
            is_last = last and report.number >= last
            while is_last and kept and not any(Path(kept).rglob("manifest.json")):
                time.sleep(0.01)  # between two looks for the file
            more = {"samples": report.samples, "replay": report.replay, "epoch": report.data_epoch}
            tell(step=report.number, members=report.members, share=report.share, **more)
            if is_last:
                signal.pause()

        return prepare(*given, **{"seed": SEED, "on_step": committed, **settings})

    members.prepare = watched
    with contextlib.suppress(spotnik.LibraryError):
        hf: Any = importlib.import_module("spotnik.hf")
        hf.prepare = watched


@pytest.fixture(params=RECIPES)
def name(request: pytest.FixtureRequest) -> str:
    name_operators()
    recipe = RECIPES[request.param]
    pytest.importorskip(recipe.needs, reason=f"{recipe.needs} is not installed")
    exec("\n".join(re.findall(r"^(?:from|import) .*", recipe.text, flags=re.MULTILINE)), {})  # once, not in each member
    return str(request.param)


def ends(job: Cluster) -> list[list[float]]:
    assert not job.errors(), job.errors()
    found = [line["done"] for line in job.lines("done")]
    assert found and all(one == found[0] for one in found)
    return found


def check(tmp_path: Path, job: Cluster, name: str, shares: list[tuple[int, list[Share]]]) -> None:
    """Members have ended as one process ends that takes these samples."""
    whole = tmp_path / f"plain-{job.folder.name}"
    alone(run, tmp_path, name=name, folder=str(whole), shares=shares)
    for end in job.folder.glob("*/final.pt"):
        assert ledger.distance(str(end), str(whole / "final.pt")) < ROUNDING


def test_one_and_three_members_end_as_one_process(cluster: Make, tmp_path: Path, name: str) -> None:
    half = alone(run, tmp_path, name=name, folder=str(tmp_path / "half"), shares=undisturbed(1))[-1]["done"]
    for count in (1, 3):
        job = cluster()
        job.gather(count)
        for number in range(count):
            job.start(run, name=name, folder=str(job.folder / f"member{number}"))
        job.wait()
        assert len(ends(job)) == count
        assert max(abs(a - b) for a, b in zip(ends(job)[0], half)) > 1e-3, "it has not trained"
        assert max(line["members"] for line in job.lines("step")) == count
        if count == 1 or not RECIPES[name].per_member:
            check(tmp_path, job, name, undisturbed(2))


def test_a_kill_changes_nothing_but_the_members(cluster: Make, tmp_path: Path, name: str) -> None:
    """One of three is lost in the second step of an epoch, and the third step takes its samples."""
    job = cluster()
    job.gather(3)
    for number in range(3):
        job.start(run, name=name, folder=str(job.folder / f"member{number}"), epochs=8, last=4 if number == 1 else 0)
    for _, line in job.events():
        if line.get("step") == 4 and sum(one["step"] == 4 for one in job.lines("step")) == 3:  # all have committed it
            job.kill(job.members[1])
    assert len(ends(job)) == 2
    steps = {line["step"]: line for line in job.lines("step")}
    assert sum(line["samples"] for line in steps.values()) == 8 * SAMPLES
    shares: dict[int, tuple[int, list[Share]]] = {step: (steps[step]["epoch"], []) for step in sorted(steps)}
    for line in job.lines("step"):
        shares[line["step"]][1].append(line["share"])
    assert [len(places(taken)) for _, taken in shares.values()] == [steps[step]["samples"] for step in shares]
    if not RECIPES[name].per_member:
        check(tmp_path, job, name, list(shares.values()))


def test_a_total_loss_changes_nothing(cluster: Make, tmp_path: Path, name: str) -> None:
    """Two members are killed together. Two others go on and end as one process does."""
    kept, epochs = tmp_path / "checkpoints", 8

    def start(job: Cluster, **more: Any) -> None:
        job.start(run, folder=str(job.folder / f"member{len(job.members)}"), name=name, epochs=epochs, **more)

    _, after, _ = total_loss(cluster, kept, lambda job: start(job, last=LOST, kept=str(kept)), since=LOST)
    for _ in range(2):
        start(after)
    after.wait()
    assert len(ends(after)) == 2
    assert 7 < min(line["step"] for line in after.lines("step")) <= LOST
    if not RECIPES[name].per_member:
        check(tmp_path, after, name, undisturbed(epochs))
        return
    whole = cluster(minimum=2)  # in one process the samples of a batch would be compared
    for _ in range(2):
        start(whole)
    whole.wait()
    assert ends(after)[0] == pytest.approx(ends(whole)[0], abs=ROUNDING)


class Adapted(torch.nn.Module):
    """A layer that stays as it is, and a trained product beside it."""

    def __init__(self) -> None:
        super().__init__()
        self.base, self.down = torch.nn.Linear(16, 16), torch.nn.Linear(16, 2, bias=False)
        self.up = torch.nn.Linear(2, 16, bias=False)

    def forward(self, x: torch.Tensor) -> Any:
        return self.base(x) + self.up(self.down(x))


def quantise(base: torch.nn.Linear, kind: str) -> torch.nn.Module:
    if kind == "torchao":
        from torchao.quantization import Int8WeightOnlyConfig, quantize_

        quantize_(base, Int8WeightOnlyConfig())
        return base
    import bitsandbytes as bnb

    types = {"nf4": bnb.nn.LinearNF4, "int8": bnb.nn.Linear8bitLt}
    more = {"has_fp16_weights": False} if kind == "int8" else {}
    narrow = types[kind](base.in_features, base.out_features, bias=base.bias is not None, **more)
    narrow.load_state_dict(base.state_dict())
    return narrow.to("cpu").requires_grad_(False)  # which quantises


def stepping(path: str, parameters: list[Any]) -> Any:
    """An optimiser, by the path of its class; one of 8 bits even for small tensors."""
    module, _, name = path.rpartition(".")
    more = {"min_8bit_size": 1} if name.endswith("8bit") else {}
    return getattr(importlib.import_module(module), name)(parameters, lr=1e-2, **more)


def adapts(tell: Tell, seed: int, stop: str, kind: str = "torchao", optimizer: str = "torch.optim.AdamW") -> None:
    torch.manual_seed(seed)
    model = Adapted()
    model.base.requires_grad_(False)
    model.base = quantise(model.base, kind)  # type: ignore[assignment]
    parameters = [p for p in model.parameters() if p.requires_grad]
    _, opt = members.prepare(model, stepping(optimizer, parameters))
    while members.step() < last_step(1 << 40, stop):
        opt.zero_grad()
        model(torch.randn(4, 16)).square().mean().backward()
        opt.step()
        tell(step=members.step(), size=members.size())
    with torch.no_grad():
        rows = model.base(torch.eye(16)).double().sum(dim=0).tolist()  # what the base computes
    tell(done=[*rows, *weights(model)])


@pytest.mark.parametrize("kind", ["torchao", "nf4", "int8"])
@pytest.mark.parametrize("optimizer", ["torch.optim.AdamW", "bitsandbytes.optim.AdamW8bit"])
def test_a_quantised_base_is_part_of_the_replica(cluster: Make, tmp_path: Path, kind: str, optimizer: str) -> None:
    """Members begin with bases of their own, and end with that of the first; one joins later, and one is killed."""
    for needed in ("torchao.quantization" if kind == "torchao" else "bitsandbytes", optimizer.partition(".")[0]):
        pytest.importorskip(needed, reason=f"{needed} is not installed")
    job, stop, settings = cluster(), tmp_path / "stop", {"kind": kind, "optimizer": optimizer}
    job.gather(2)
    for number in range(2):
        job.start(adapts, seed=number, stop=str(stop), **settings)
    for _, line in job.events():
        if line.get("step", 0) >= 5 and len(job.members) == 2:
            job.start(adapts, seed=2, stop=str(stop), **settings)
        if line.get("size") == 3 and not stop.exists():
            job.kill(job.members[0])
            tell_to_stop(stop, line["step"] + 20)
    assert len(ends(job)) == 2


def test_completions_that_are_compared_are_not_divided(tmp_path: Path) -> None:
    trl = pytest.importorskip("trl", reason="trl is not installed")
    datasets = pytest.importorskip("datasets", reason="datasets is not installed")
    from spotnik.hf import Callback

    data = datasets.Dataset.from_dict({"prompt": [sentence(i) for i in range(SAMPLES)]})
    more = {"per_device_train_batch_size": 4, "num_generations": 2, "use_cpu": True, "bf16": False, "report_to": "none"}
    trainer = trl.GRPOTrainer(
        language_model(),
        reward_funcs=lambda completions, **_: [0.0] * len(completions),
        args=trl.GRPOConfig(str(tmp_path), **more),
        train_dataset=data,
        processing_class=tokenizer(),
        callbacks=[Callback()],
    )
    try:
        with pytest.raises(spotnik.ArgumentError, match=r"TRL's GRPO and RLOO, would be divided among members"):
            trainer.train()
    finally:
        members.leave()
