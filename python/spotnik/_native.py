# SPDX-License-Identifier: Apache-2.0
"""The C interface of libspotnik, declared for ctypes: where the library is, its structs, its functions.

Decides nothing and checks nothing but that library and package fit together. ``tests/python/base/test_native.py``
compares every declaration here with ``include/spotnik/spotnik.h``, ``p2p.h``, ``sync.h``, ``watch.h``, ``state.h``
and ``group.h``.
"""

from __future__ import annotations

import ctypes
import enum
import os
import threading
from ctypes import POINTER, c_char, c_char_p, c_double, c_float, c_int, c_size_t, c_uint32, c_uint64, c_void_p
from pathlib import Path
from typing import Any, Optional, TypeVar

from .errors import LibraryError

__all__ = ["Dtype", "Op", "load"]

SONAME = "libspotnik.so.0"
VERSION = "0.1.0"
RANGES_MAX = 64
RECOVERIES_KEPT = 16

#: Room behind each struct that the library writes: a newer library may know more fields than this package.
_SPARE_BYTES = 4096


class Dtype(enum.IntEnum):
    """Element type of registered state and of buckets. BF16: the upper half of an F32; Q8: blocks of 252 numbers."""

    F32 = 1
    F64 = 2
    I32 = 3
    I64 = 4
    U8 = 5
    F16 = 6
    BF16 = 7
    I8 = 8
    I16 = 9
    U16 = 10
    U32 = 11
    U64 = 12
    Q8 = 13


class Op(enum.IntEnum):
    """Reduction of an all-reduce. MEAN is weighted. SUM and PRODUCT of integers wrap, their MEAN is rounded."""

    SUM = 1
    MEAN = 2
    MIN = 3
    MAX = 4
    PRODUCT = 5


class Minority(enum.IntEnum):
    """What a member does that is cut off from the majority."""

    WAIT = 0
    STOP = 1


class NativeConfig(ctypes.Structure):
    """spotnik_config."""

    _fields_ = [
        ("size", c_size_t),
        ("job_name", c_char_p),
        ("key_file", c_char_p),
        ("peers", c_char_p),
        ("bind", c_char_p),
        ("members_min", c_uint32),
        ("members_max", c_uint32),
        ("samples", c_uint64),
        ("batch", c_uint64),
        ("steps_max", c_uint64),
        ("silence_floor_ns", c_uint64),
        ("on_minority", c_int),
        ("minority_wait_ns", c_uint64),
        ("checkpoint_dir", c_char_p),
        ("checkpoint_steps", c_uint64),
        ("checkpoint_interval_ns", c_uint64),
        ("checkpoint_keep", c_uint32),
        ("batch_per_member", c_uint64),
        ("batching", c_int),
        ("batch_most", c_uint64),
        ("noise", c_uint32),
    ]


class NativeRange(ctypes.Structure):
    """spotnik_range."""

    _fields_ = [("begin", c_uint64), ("end", c_uint64)]


class NativeStep(ctypes.Structure):
    """spotnik_step."""

    _fields_ = [
        ("number", c_uint64),
        ("view_epoch", c_uint64),
        ("rank", c_uint32),
        ("size", c_uint32),
        ("data_epoch", c_uint64),
        ("sample_count", c_uint64),
        ("range_count", c_uint32),
        ("samples", NativeRange * RANGES_MAX),
        ("replay", c_uint32),
        ("share", c_uint32),
        ("shares", c_uint32),
    ]


class NativeRecovery(ctypes.Structure):
    """spotnik_recovery."""

    _fields_ = [
        ("epoch", c_uint64),
        ("lost", c_uint32),
        ("joined", c_uint32),
        ("left", c_uint32),
        ("detected_ns", c_uint64),
        ("reconciled_ns", c_uint64),
        ("accepted_ns", c_uint64),
        ("restarted_ns", c_uint64),
        ("committed_ns", c_uint64),
    ]


class NativeMember(ctypes.Structure):
    """spotnik_job_member."""

    _fields_ = [("member", c_char * 33), ("address", c_char * 64)]


class NativeStatus(ctypes.Structure):
    """spotnik_job_status."""

    _fields_ = [
        ("member", c_char * 33),
        ("view_epoch", c_uint64),
        ("rank", c_uint32),
        ("size", c_uint32),
        ("step_committed", c_uint64),
        ("step_stable", c_uint64),
        ("parked", c_uint32),
        ("joining", c_uint32),
        ("bytes_sent", c_uint64),
        ("bytes_received", c_uint64),
        ("control_messages", c_uint64),
        ("losses", c_uint64),
        ("joins", c_uint64),
        ("leaves", c_uint64),
        ("recovery_count", c_uint32),
        ("linked", c_uint32),
        ("recovery", NativeRecovery * RECOVERIES_KEPT),
    ]


class NativeCheckpointInfo(ctypes.Structure):
    """spotnik_checkpoint_info."""

    _fields_ = [
        ("size", c_size_t),
        ("resumed_step", c_uint64),
        ("complete_step", c_uint64),
        ("complete_count", c_uint64),
        ("left_out_count", c_uint64),
        ("copy_ns", c_uint64),
        ("copy_bytes", c_uint64),
        ("write_ns", c_uint64),
        ("message", c_char * 512),
    ]


class NativeSyncConfig(ctypes.Structure):
    """spotnik_sync_config."""

    _fields_ = [
        ("size", c_size_t),
        ("strategy", c_char_p),
        ("alpha", c_float),
        ("period", c_uint32),
        ("lookahead_alpha", c_float),
        ("lookahead_period", c_uint32),
        ("average_period", c_uint32),
    ]


class NativeSyncView(ctypes.Structure):
    """spotnik_sync_view."""

    _fields_ = [
        ("count", c_size_t),
        ("model", POINTER(c_float)),
        ("gradient", POINTER(c_float)),
        ("scratch", POINTER(c_float)),
        ("centre", POINTER(c_float)),
        ("slow", POINTER(c_float)),
        ("step", c_uint64),
        ("rank", c_uint32),
        ("size", c_uint32),
        ("arrived", c_uint32),
    ]


class NativeSyncNumbers(ctypes.Structure):
    """spotnik_sync_numbers."""

    _fields_ = [
        ("size", c_size_t),
        ("step", c_uint64),
        ("members", c_uint32),
        ("asynchronous", c_uint32),
        ("throughput", c_double),
        ("mean_compute_s", c_double),
        ("max_compute_s", c_double),
        ("samples_done", c_uint64),
        ("samples_total", c_uint64),
        ("memory", POINTER(c_double)),
    ]


class NativeSyncReport(ctypes.Structure):
    """spotnik_sync_report."""

    _fields_ = [
        ("size", c_size_t),
        ("asynchronous", c_uint32),
        ("switches", c_uint32),
        ("switched_step", c_uint64),
        ("reason", c_char_p),
        ("value", c_double),
        ("limit", c_double),
        ("throughput", c_double),
        ("waiting", c_double),
    ]


class NativeArrival(ctypes.Structure):
    """spotnik_arrival."""

    _fields_ = [
        ("size", c_uint32),
        ("rank", c_uint32),
        ("source", c_uint64),
        ("version", c_uint64),
        ("tried", c_uint64),
    ]


class NativeBatchInfo(ctypes.Structure):
    """spotnik_batch_info."""

    _fields_ = [
        ("size", c_size_t),
        ("dynamic", c_uint32),
        ("members", c_uint32),
        ("adjustments", c_uint64),
        ("share", c_uint64),
        ("share_least", c_uint64),
        ("share_most", c_uint64),
        ("compute_least_us", c_uint32),
        ("compute_most_us", c_uint32),
        ("noise_steps", c_uint64),
        ("noise_scale", c_double),
        ("noise_error", c_double),
    ]


class NativeLogEntry(ctypes.Structure):
    """spotnik_log_entry."""

    _fields_ = [
        ("size", c_size_t),
        ("level", c_int),
        ("id", c_char * 8),
        ("name", c_char * 24),
        ("text", c_char * 400),
        ("step", c_uint64),
        ("held_back", c_uint64),
    ]


STRUCTS: dict[str, type[ctypes.Structure]] = {
    "spotnik_config": NativeConfig,
    "spotnik_range": NativeRange,
    "spotnik_step": NativeStep,
    "spotnik_recovery": NativeRecovery,
    "spotnik_job_member": NativeMember,
    "spotnik_job_status": NativeStatus,
    "spotnik_checkpoint_info": NativeCheckpointInfo,
    "spotnik_arrival": NativeArrival,
    "spotnik_sync_config": NativeSyncConfig,
    "spotnik_sync_view": NativeSyncView,
    "spotnik_sync_numbers": NativeSyncNumbers,
    "spotnik_sync_report": NativeSyncReport,
    "spotnik_batch_info": NativeBatchInfo,
    "spotnik_log_entry": NativeLogEntry,
}

_JOB = c_void_p
_REQUEST = c_void_p
_SYNC = c_void_p
_GROUP = c_void_p
_VECTOR = c_void_p  # of floats

Refresh = ctypes.CFUNCTYPE(None, c_void_p)
Reach = ctypes.CFUNCTYPE(c_int, c_void_p, c_uint64, c_void_p, c_size_t)
SyncApply = ctypes.CFUNCTYPE(None, c_void_p, c_void_p, c_void_p, c_size_t)
SyncRule = ctypes.CFUNCTYPE(None, c_void_p, c_void_p, POINTER(NativeSyncView))
SyncPolicy = ctypes.CFUNCTYPE(c_int, c_void_p, POINTER(NativeSyncNumbers))

#: Types of function pointers, by the name of the argument.
CALLBACKS: dict[str, Any] = {
    "refresh": Refresh,
    "read": Reach,
    "write": Reach,
    "apply": SyncApply,
    "begin": SyncRule,
    "finish": SyncRule,
    "policy": SyncPolicy,
}

#: Result and arguments of every function of the headers.
FUNCTIONS: dict[str, tuple[Any, list[Any]]] = {
    "spotnik_config_init": (None, [POINTER(NativeConfig)]),
    "spotnik_config_init_sized": (None, [POINTER(NativeConfig), c_size_t]),
    "spotnik_join": (c_int, [POINTER(NativeConfig), POINTER(_JOB)]),
    "spotnik_state_add": (c_int, [_JOB, c_char_p, c_void_p, c_size_t, c_int]),
    "spotnik_state_blob_set": (c_int, [_JOB, c_char_p, c_void_p, c_size_t]),
    "spotnik_state_blob_get": (c_int, [_JOB, c_char_p, c_void_p, c_size_t, POINTER(c_size_t)]),
    "spotnik_state_refresh_set": (c_int, [_JOB, Refresh, c_void_p]),
    "spotnik_state_reach_set": (c_int, [_JOB, Reach, Reach, c_void_p]),
    "spotnik_state_add_remote": (c_int, [_JOB, c_char_p, c_size_t, c_int]),
    "spotnik_state_changed": (c_int, [_JOB]),
    "spotnik_state_loads": (c_uint64, [_JOB]),
    "spotnik_step_begin": (c_int, [_JOB, POINTER(NativeStep)]),
    "spotnik_patience_set": (c_int, [_JOB, c_uint64]),
    "spotnik_samples_decline": (c_int, [_JOB]),
    "spotnik_batch_continue": (c_int, [_JOB]),
    "spotnik_weight_set": (c_int, [_JOB, c_uint64]),
    "spotnik_allreduce": (c_int, [_JOB, c_uint32, c_void_p, c_size_t, c_int, c_int]),
    "spotnik_alloc": (c_void_p, [_JOB, c_size_t]),
    "spotnik_step_commit": (c_int, [_JOB]),
    "spotnik_broadcast": (c_int, [_JOB, c_uint32, c_void_p, c_size_t, c_int, c_uint32]),
    "spotnik_allgather": (c_int, [_JOB, c_uint32, c_void_p, c_size_t, c_int, c_void_p, c_uint32]),
    "spotnik_reduce_scatter": (c_int, [_JOB, c_uint32, c_void_p, c_size_t, c_int, c_int, POINTER(NativeRange)]),
    "spotnik_allreduce_compressed": (c_int, [_JOB, c_uint32, POINTER(c_float), c_size_t, c_int, c_int]),
    "spotnik_contributors": (c_uint32, [_JOB, POINTER(c_uint32), c_uint32]),
    "spotnik_barrier": (c_int, [_JOB]),
    "spotnik_publish": (c_int, [_JOB, c_char_p, c_void_p, c_size_t, c_int, c_uint64]),
    "spotnik_pull": (
        c_int,
        [_JOB, c_char_p, c_uint32, c_uint64, c_void_p, c_size_t, c_int, c_uint64, POINTER(_REQUEST)],
    ),
    "spotnik_store_open": (c_int, [_JOB, c_char_p, POINTER(c_float), c_size_t, c_uint32]),
    "spotnik_push": (c_int, [_JOB, c_char_p, POINTER(c_float), c_size_t, c_uint64, POINTER(_REQUEST)]),
    "spotnik_fetch": (c_int, [_JOB, c_char_p, POINTER(c_float), c_size_t, c_uint64, POINTER(_REQUEST)]),
    "spotnik_request_wait": (c_int, [_REQUEST, c_uint64, POINTER(NativeArrival)]),
    "spotnik_request_free": (None, [_REQUEST]),
    "spotnik_notice": (None, [_JOB]),
    "spotnik_helper_shield": (None, []),
    "spotnik_leave": (c_int, [_JOB]),
    "spotnik_abandon": (None, [_JOB]),
    "spotnik_status": (None, [_JOB, POINTER(NativeStatus)]),
    "spotnik_checkpoint_status": (None, [_JOB, POINTER(NativeCheckpointInfo)]),
    "spotnik_batch_status": (None, [_JOB, POINTER(NativeBatchInfo)]),
    "spotnik_observe": (c_int, [_JOB, c_char_p, c_double]),
    "spotnik_log_next": (c_int, [_JOB, POINTER(NativeLogEntry)]),
    "spotnik_members": (c_uint32, [_JOB, POINTER(NativeMember), c_uint32]),
    "spotnik_state_digest": (c_uint64, [_JOB]),
    "spotnik_strerror": (c_char_p, [c_int]),
    "spotnik_version": (c_char_p, []),
    "spotnik_last_error": (c_char_p, []),
    "spotnik_group_open": (c_int, [c_char_p, c_uint32, c_uint32, POINTER(_GROUP)]),
    "spotnik_group_join": (c_int, [_GROUP, POINTER(NativeConfig)]),
    "spotnik_group_state_copy_add": (c_int, [_GROUP, c_char_p, c_void_p, c_size_t, c_int]),
    "spotnik_group_refresh_set": (c_int, [_GROUP, Refresh, c_void_p]),
    "spotnik_group_patience_set": (c_int, [_GROUP, c_uint64]),
    "spotnik_group_loads": (c_uint64, [_GROUP]),
    "spotnik_group_step_begin": (c_int, [_GROUP, POINTER(NativeStep)]),
    "spotnik_group_memory": (c_void_p, [_GROUP, c_size_t]),
    "spotnik_group_state_add": (c_int, [_GROUP, c_char_p, c_void_p, c_size_t, c_int]),
    "spotnik_group_allreduce": (c_int, [_GROUP, c_uint32, c_void_p, c_size_t, c_int, c_int]),
    "spotnik_group_combine": (c_int, [_GROUP, c_uint32, c_void_p, c_size_t, c_int, c_int]),
    "spotnik_group_weight_set": (c_int, [_GROUP, c_uint64]),
    "spotnik_group_samples_decline": (c_int, [_GROUP]),
    "spotnik_group_step_commit": (c_int, [_GROUP]),
    "spotnik_group_notice": (None, [_GROUP]),
    "spotnik_group_digest": (c_int, [_GROUP, POINTER(c_uint64)]),
    "spotnik_group_observe": (c_int, [_GROUP, c_char_p, c_double]),
    "spotnik_group_status": (None, [_GROUP, POINTER(NativeStatus)]),
    "spotnik_group_job": (_JOB, [_GROUP]),
    "spotnik_group_leave": (c_int, [_GROUP]),
    "spotnik_group_abandon": (c_int, [_GROUP]),
    "spotnik_sync_config_init_sized": (None, [POINTER(NativeSyncConfig), c_size_t]),
    "spotnik_sync_open": (
        c_int,
        [_JOB, POINTER(NativeSyncConfig), _VECTOR, c_size_t, SyncApply, c_void_p, POINTER(_SYNC)],
    ),
    "spotnik_sync_state_add": (c_int, [_SYNC, c_char_p, c_void_p, c_size_t, c_int]),
    "spotnik_sync_begin": (c_int, [_SYNC, POINTER(NativeStep)]),
    "spotnik_sync_step": (c_int, [_SYNC, _VECTOR]),
    "spotnik_sync_name": (c_char_p, [_SYNC]),
    "spotnik_sync_is_same_bits": (c_int, [_SYNC]),
    "spotnik_sync_is_local": (c_int, [_SYNC, c_uint64]),
    "spotnik_sync_agreed": (_VECTOR, [_SYNC]),
    "spotnik_sync_digest": (c_uint64, [_SYNC]),
    "spotnik_sync_tell": (c_int, [_SYNC, c_uint32, c_double]),
    "spotnik_sync_told": (c_double, [_SYNC, c_uint32]),
    "spotnik_sync_rule_set": (c_int, [_SYNC, c_char_p, c_uint32, SyncRule, SyncRule, c_void_p]),
    "spotnik_sync_policy_set": (c_int, [_SYNC, SyncPolicy, c_void_p]),
    "spotnik_sync_report_get": (c_int, [_SYNC, POINTER(NativeSyncReport)]),
    "spotnik_sync_average": (None, [_SYNC, _VECTOR]),
    "spotnik_sync_apply": (None, [_SYNC, _VECTOR, _VECTOR]),
}

_Struct = TypeVar("_Struct", bound=ctypes.Structure)
_lock = threading.Lock()
_library: Optional[ctypes.CDLL] = None


def roomy(struct: type[_Struct]) -> _Struct:
    """Return a zeroed struct with room behind it for fields that only a newer library knows."""
    return struct.from_buffer(bytearray(ctypes.sizeof(struct) + _SPARE_BYTES))


def config_new(library: ctypes.CDLL) -> NativeConfig:
    """Return the defaults and what the environment says."""
    config = NativeConfig()
    library.spotnik_config_init_sized(config, ctypes.sizeof(config))
    return config


def _candidates() -> list[str]:
    """Where the library may be: what the user says, what the wheel brought, what the system has."""
    said = os.environ.get("SPOTNIK_LIBRARY")
    if said:
        return [said]
    here = Path(__file__).resolve().parent
    bundled = sorted(here.parent.glob(".spotnik.mesonpy.libs/libspotnik.so*"))
    return [str(path) for path in bundled] + [SONAME]


def _open() -> ctypes.CDLL:
    failures = []
    for candidate in _candidates():
        try:
            return ctypes.CDLL(candidate)
        except OSError as error:
            failures.append(f"{candidate}: {error}")
    raise LibraryError(
        "libspotnik cannot be loaded; install the package with pip, or set SPOTNIK_LIBRARY to the path of "
        "libspotnik.so in a build folder. Tried " + "; ".join(failures)
    )


def _declare(library: ctypes.CDLL) -> ctypes.CDLL:
    for name, (result, arguments) in FUNCTIONS.items():
        try:
            function = getattr(library, name)
        except AttributeError:
            raise LibraryError(
                f"{library._name} lacks {name}: it is older than this package; build both from the same source, "
                "and see that SPOTNIK_LIBRARY does not name an old build"
            ) from None
        function.restype = result
        function.argtypes = arguments
    version = library.spotnik_version().decode()
    if version != VERSION:
        raise LibraryError(
            f"{library._name} is version {version}, and this package is {VERSION}; install both from one release, "
            "and see that SPOTNIK_LIBRARY does not name another"
        )
    return library


def load() -> ctypes.CDLL:
    """Return libspotnik with every function declared, loading it on first use.

    Raises :class:`spotnik.LibraryError` when it cannot be found or does not fit.
    """
    global _library
    with _lock:
        if _library is None:
            _library = _declare(_open())
        return _library
