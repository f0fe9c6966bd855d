# SPDX-License-Identifier: Apache-2.0
"""A ResNet that learns to tell images apart, while its workers come and go.

    spotnik run -n 2:4 --respawn --kill-every 20s -- python examples/torch/images.py --data mnist/

--data is a folder with IDX files (images-idx3-ubyte, labels-idx1-ubyte, maybe .gz; MNIST and its relatives), or one
with a folder of .pt tensors or .pgm/.ppm images for each class. Without it, images of circles, squares, crosses and
stripes are drawn here. One image in ten is kept aside for the test.

BatchNorm needs nothing special: its running statistics are averaged after each step, so all replicas stay equal.
"""

import argparse
import gzip
import math
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

import spotnik.torch as spotnik


def read_idx(path: Path) -> torch.Tensor:
    """An IDX file of bytes as a tensor."""
    data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    if data[:3] != b"\x00\x00\x08":
        raise SystemExit(f"{path} is not an IDX file of bytes")
    sizes = [int.from_bytes(data[4 + 4 * i : 8 + 4 * i], "big") for i in range(data[3])]
    return torch.frombuffer(bytearray(data[4 + 4 * len(sizes) :]), dtype=torch.uint8).view(sizes)


def read_netpbm(path: Path) -> torch.Tensor:
    """A binary .pgm or .ppm file as (channels, height, width)."""
    data = path.read_bytes()
    if data[:2] not in (b"P5", b"P6"):
        raise SystemExit(f"{path} is not a binary .pgm or .ppm file")
    width, height = (int(word) for word in data.split(maxsplit=3)[1:3])
    channels = 3 if data[:2] == b"P6" else 1
    pixels = torch.frombuffer(bytearray(data[-height * width * channels :]), dtype=torch.uint8)
    return pixels.view(height, width, channels).permute(2, 0, 1)


def read_folders(folder: Path) -> tuple[torch.Tensor, torch.Tensor]:
    """One folder per class."""
    images, labels = [], []
    for label, one in enumerate(sorted(path for path in folder.iterdir() if path.is_dir())):
        for path in sorted(one.iterdir()):
            images.append(torch.load(path) if path.suffix == ".pt" else read_netpbm(path))
            labels.append(label)
    if not images:
        raise SystemExit(f"{folder} has neither IDX files nor a folder for each class")
    return torch.stack(images), torch.tensor(labels)


def read(folder: Path) -> tuple[torch.Tensor, torch.Tensor]:
    """Images as (count, channels, height, width) from 0 to 1, and their classes."""
    images, labels = sorted(folder.glob("*images*idx3*")), sorted(folder.glob("*labels*idx1*"))
    if images and labels:
        pixels, classes = read_idx(images[0])[:, None], read_idx(labels[0]).long()
    else:
        pixels, classes = read_folders(folder)
    return pixels.float() / 255, classes


def draw(count: int = 4000, size: int = 28) -> tuple[torch.Tensor, torch.Tensor]:
    """Noisy circles, squares, crosses and stripes, of any size and anywhere."""
    generator = torch.Generator().manual_seed(0)
    classes = torch.randint(0, 4, (count,), generator=generator)
    middle = torch.rand(count, 2, 1, 1, generator=generator) * size / 2 + size / 4
    radius = torch.rand(count, 1, 1, generator=generator) * size / 6 + size / 8
    line = torch.arange(size, dtype=torch.float32)
    dy, dx = (line[None, :, None] - middle[:, 0]).abs(), (line[None, None, :] - middle[:, 1]).abs()
    inside = torch.maximum(dy, dx) < radius
    shapes = torch.stack(
        [(dy**2 + dx**2).sqrt() < radius, inside, inside & (torch.minimum(dy, dx) < 2), inside & (dy % 4 < 2)], dim=1
    )
    images = shapes[torch.arange(count), classes].float()
    return (images + 0.3 * torch.randn(images.shape, generator=generator))[:, None], classes


class Block(nn.Module):
    """Two convolutions and a way round them."""

    def __init__(self, inside: int, outside: int, stride: int) -> None:
        super().__init__()
        self.one = nn.Conv2d(inside, outside, 3, stride, 1, bias=False)
        self.two = nn.Conv2d(outside, outside, 3, 1, 1, bias=False)
        self.norm_one, self.norm_two = nn.BatchNorm2d(outside), nn.BatchNorm2d(outside)
        self.way = nn.Identity()
        if stride != 1 or inside != outside:
            self.way = nn.Sequential(nn.Conv2d(inside, outside, 1, stride, bias=False), nn.BatchNorm2d(outside))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(count, inside, h, w) to (count, outside, h / stride, w / stride)."""
        y = functional.relu(self.norm_one(self.one(x)))
        return functional.relu(self.norm_two(self.two(y)) + self.way(x))


class ResNet(nn.Module):
    """With widths (64, 128, 256, 512) and two blocks each this is ResNet-18 for small images."""

    def __init__(self, channels: int, classes: int, widths: tuple[int, ...], blocks: int = 2) -> None:
        super().__init__()
        width = widths[0]
        layers: list[nn.Module] = [nn.Conv2d(channels, width, 3, 1, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU()]
        for number, wider in enumerate(widths):
            for block in range(blocks):
                layers.append(Block(width, wider, 2 if number and not block else 1))
                width = wider
        self.features = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten())
        self.out = nn.Linear(width, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(count, channels, h, w) to (count, classes)."""
        return self.out(self.features(x))


@torch.no_grad()
def share_right(model: nn.Module, data: TensorDataset) -> float:
    """The share of the images that the model puts in their class."""
    model.eval()
    right = [(model(x).argmax(1) == y).sum().item() for x, y in DataLoader(data, batch_size=200)]
    model.train()
    return sum(right) / len(data)


def parse() -> argparse.Namespace:
    """The options."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, help="a folder with images; default: drawn here")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch", type=int, default=64, help="images a step, over all workers")
    parser.add_argument("--width", type=int, default=16, help="channels of the first layer; ResNet-18 has 64")
    parser.add_argument("--lr", type=float, default=0.1)
    parser.add_argument("--checkpoint", help="a folder shared by all workers, to survive the loss of all")
    return parser.parse_args()


def main() -> None:
    """Train, and test after each epoch."""
    options = parse()
    images, labels = read(options.data) if options.data else draw()
    kept = len(images) // 10
    training, test = TensorDataset(images[kept:], labels[kept:]), TensorDataset(images[:kept], labels[:kept])
    torch.manual_seed(0)
    model = ResNet(images.shape[1], int(labels.max()) + 1, tuple(options.width << i for i in range(4)))
    optimizer = torch.optim.SGD(model.parameters(), lr=options.lr, momentum=0.9, weight_decay=5e-4)
    model, optimizer = spotnik.prepare(model, optimizer, checkpoint=options.checkpoint)
    loader = spotnik.shard(DataLoader(training, batch_size=options.batch, shuffle=True, drop_last=True))
    steps = math.ceil(len(training) / options.batch) * options.epochs
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, options.lr, total_steps=steps + 1)
    for epoch in spotnik.epochs(options.epochs):
        for x, y in loader:
            optimizer.zero_grad()
            functional.cross_entropy(model(x), y).backward()
            optimizer.step()
            schedule.step()
        if spotnik.rank() == 0:
            right = share_right(model, test)
            print(f"epoch {epoch}: {right:.1%} of the test right, {spotnik.size()} workers", flush=True)


if __name__ == "__main__":
    main()
