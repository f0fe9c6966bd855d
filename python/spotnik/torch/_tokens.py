# SPDX-License-Identifier: Apache-2.0
"""A file of token ids as a data set: blocks by number, read from where they lie, so that members read what they use."""

from __future__ import annotations

import os
from typing import Any, Optional, Union

import numpy as np
import torch
from torch.utils.data import Dataset

from ..errors import ArgumentError


class Tokens(Dataset[tuple[torch.Tensor, torch.Tensor]]):
    """Blocks of `block` token ids, each with the ids that follow: ``shard(DataLoader(Tokens("train.bin", 1024)))``.

    The file is mapped and not loaded: an array of NumPy (``.npy``), or plain numbers of type `dtype` behind `offset`
    bytes. Sample i begins at place ``i * block``; what is behind the last whole block is left out. So each id is used
    once per epoch. Several files: ``torch.utils.data.ConcatDataset([Tokens(one, 1024) for one in files])``.
    """

    def __init__(self, path: Union[str, os.PathLike[str]], block: int, dtype: str = "uint16", offset: int = 0) -> None:
        self._path, self._block, self._dtype, self._offset = os.fspath(path), block, dtype, offset
        self._ids: Optional[Any] = None  # each process maps the file for itself
        ids = self._open()
        if block < 1 or ids.ndim != 1 or ids.dtype.kind not in "iu" or len(ids) <= block:
            raise ArgumentError(
                f"{self._path} has {ids.dtype} numbers of shape {ids.shape}; Tokens() takes one row of whole numbers, "
                f"more than the {block} of a block"
            )
        self._count = (len(ids) - 1) // block

    def _open(self) -> Any:
        if self._ids is None and self._path.endswith(".npy"):
            self._ids = np.lib.format.open_memmap(self._path, mode="r")
        elif self._ids is None:
            self._ids = np.memmap(self._path, dtype=self._dtype, mode="r", offset=self._offset)
        return self._ids

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        if not 0 <= index < self._count:
            raise IndexError(index)
        first = index * self._block
        ids = torch.from_numpy(self._open()[first : first + self._block + 1].astype(np.int64))
        return ids[:-1], ids[1:]

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_ids": None}
