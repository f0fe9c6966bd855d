# SPDX-License-Identifier: Apache-2.0
"""A small GPT that learns to write, character by character, while its workers come and go.

    spotnik run -n 2:4 --respawn --kill-every 10s -- python examples/torch/charlm.py --text shakespeare.txt

Without --text it learns the sums 0+0=0 to 99+99=198, a text made here whose continuation can be right or wrong.
Everything about Spotnik is in train(); the rest is an ordinary model.
"""

import argparse
import math
import time
from pathlib import Path
from typing import Optional

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset

import spotnik.torch as spotnik


class Text(Dataset):
    """Every stretch of `length` characters, and the same one character on."""

    def __init__(self, text: str, length: int) -> None:
        self.characters = sorted(set(text))
        number = {character: i for i, character in enumerate(self.characters)}
        self.codes = torch.tensor([number[character] for character in text])
        self.length = length

    def __len__(self) -> int:
        return (len(self.codes) - 1) // self.length

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        at = index * self.length
        return self.codes[at : at + self.length], self.codes[at + 1 : at + self.length + 1]

    def encode(self, text: str) -> torch.Tensor:
        """Text as a batch of one."""
        return torch.tensor([[self.characters.index(character) for character in text]])


def sums(count: int = 40_000) -> str:
    """Lines like 17+5=22, in random order."""
    generator = torch.Generator().manual_seed(0)
    pairs = torch.randint(0, 100, (count, 2), generator=generator).tolist()
    return "".join(f"{a}+{b}={a + b}\n" for a, b in pairs)


class Block(nn.Module):
    """Attention to what came before, then a layer on each place."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm_attention, self.norm_layer = nn.LayerNorm(width), nn.LayerNorm(width)
        self.query_key_value = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.layer = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, place, width) to the same shape."""
        batch, places, width = x.shape
        split = self.query_key_value(self.norm_attention(x)).view(batch, places, 3, self.heads, width // self.heads)
        query, key, value = split.permute(2, 0, 3, 1, 4)
        seen = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.out(seen.transpose(1, 2).reshape(batch, places, width))
        return x + self.layer(self.norm_layer(x))


class Gpt(nn.Module):
    """Characters in, a guess of each next character out."""

    def __init__(self, characters: int, length: int, width: int, layers: int, heads: int) -> None:
        super().__init__()
        self.length = length
        self.character = nn.Embedding(characters, width)
        self.place = nn.Embedding(length, width)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(layers)))
        self.norm = nn.LayerNorm(width)
        self.out = nn.Linear(width, characters, bias=False)
        self.out.weight = self.character.weight
        nn.init.normal_(self.character.weight, std=0.02)

    def forward(self, codes: torch.Tensor) -> torch.Tensor:
        """(batch, place) to (batch, place, character)."""
        places = torch.arange(codes.shape[1], device=codes.device)
        return self.out(self.norm(self.blocks(self.character(codes) + self.place(places))))

    @torch.no_grad()
    def write(self, codes: torch.Tensor, count: int) -> list[int]:
        """Continue a batch of one by `count` characters."""
        for _ in range(count):
            logits = self(codes[:, -self.length :])[0, -1]
            codes = torch.cat([codes, torch.multinomial(logits.softmax(0), 1)[None]], dim=1)
        return codes[0].tolist()


def train(model: Gpt, text: Text, options: argparse.Namespace) -> None:
    """Train for options.epochs passes over the text."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=options.lr, weight_decay=0.01)
    model, optimizer = spotnik.prepare(model, optimizer, checkpoint=options.checkpoint)
    loader = spotnik.shard(DataLoader(text, batch_size=options.batch, shuffle=True))
    total = options.epochs * len(loader)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min(1, (step + 1) / 50) * 0.5 * (1 + math.cos(math.pi * min(1, step / total)))
    )
    started = time.monotonic()
    for epoch in spotnik.epochs(options.epochs):  # one that joins late starts in the epoch of the others
        for codes, following in loader:
            optimizer.zero_grad()
            loss = functional.cross_entropy(model(codes).flatten(0, 1), following.flatten())
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)  # of the averages: they are there after backward()
            optimizer.step()
            schedule.step()
            step = spotnik.job().step
            if step % 20 == 0 and spotnik.rank() == 0:
                told = f"epoch {epoch}, step {step}: loss {loss.item():.3f}, {spotnik.size()} workers"
                print(f"{told}, {time.monotonic() - started:.0f} s", flush=True)


def parse(arguments: Optional[list[str]] = None) -> argparse.Namespace:
    """The options."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--text", type=Path, help="a text file to learn; default: sums")
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--batch", type=int, default=64, help="samples a step, over all workers")
    parser.add_argument("--length", type=int, default=64, help="characters a sample")
    parser.add_argument("--width", type=int, default=96)
    parser.add_argument("--layers", type=int, default=3)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--lr", type=float, default=3e-3)
    parser.add_argument("--checkpoint", help="a folder shared by all workers, to survive the loss of all")
    return parser.parse_args(arguments)


def main() -> None:
    """Train, then write something."""
    options = parse()
    text = Text(options.text.read_text() if options.text else sums(), options.length)
    torch.manual_seed(0)
    model = Gpt(len(text.characters), options.length, options.width, options.layers, options.heads)
    train(model, text, options)
    if spotnik.rank() == 0:
        start = "\n" if options.text else "12+34="
        print("".join(text.characters[code] for code in model.eval().write(text.encode(start), 200)))


if __name__ == "__main__":
    main()
