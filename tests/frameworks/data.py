# SPDX-License-Identifier: Apache-2.0
"""Digits: the real ones where SPOTNIK_DATA or ../shared/data has them, else drawn from the number of the sample."""

from __future__ import annotations

import gzip
import os
from pathlib import Path
from typing import Any

import numpy as np


def folder() -> Path:
    """Where data are looked for."""
    root = Path(__file__).resolve().parents[2]
    places = [os.environ.get("SPOTNIK_DATA", ""), root / "shared/data", root.parent / "shared/data"]
    found = [Path(one) for one in places if one and (Path(one) / "mnist10k").is_dir()]
    return found[0] if found else Path("/nonexistent")


def digits(count: int) -> tuple[Any, Any]:
    """Images, 28 by 28, from 0 to 1, and their labels."""
    place = folder() / "mnist10k"
    if not place.is_dir():
        chance = np.random.default_rng(5)
        shapes, labels = chance.random((10, 28, 28)), chance.integers(0, 10, count)
        return (shapes[labels] + chance.normal(size=(count, 28, 28)) / 2).astype(np.float32), labels.astype(np.int32)
    with gzip.open(place / "images-idx3-ubyte.gz") as file:
        images = np.frombuffer(file.read(), np.uint8, offset=16).reshape(-1, 28, 28)[:count]
    with gzip.open(place / "labels-idx1-ubyte.gz") as file:
        labels = np.frombuffer(file.read(), np.uint8, offset=8)[:count]
    return images.astype(np.float32) / 255, labels.astype(np.int32)


def text(count: int) -> Any:
    """The first characters of a text, as numbers below 128."""
    place = folder() / "text" / "tinyshakespeare.txt"
    raw = place.read_bytes() if place.exists() else b"the quick brown fox jumps over the lazy dog. " * (count // 45 + 1)
    return np.frombuffer(raw[:count], np.uint8).astype(np.int32) % 128


LENGTH = 32  # characters in a sample of text


def samples(model: str, count: int) -> tuple[Any, Any]:
    """What `model` is trained on: digits, or pieces of the text and the characters that follow."""
    if model not in ("transformer", "embedded"):
        return digits(count)
    characters = text(count * LENGTH + 1)
    return characters[:-1].reshape(-1, LENGTH), characters[1:].reshape(-1, LENGTH)
