# SPDX-License-Identifier: Apache-2.0
"""``elastic.run`` and the states it keeps, whatever the framework."""

from __future__ import annotations

import copy
import functools
import pickle
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from ._world import once, world

if TYPE_CHECKING:
    from ..hosting.memory import Array


def run(func: Callable[..., Any]) -> Callable[..., Any]:
    """Call ``func(state, ...)`` in step with the others; again after :class:`HostsUpdatedInterrupt` and the like."""

    @functools.wraps(func)
    def wrapper(state: State, *arguments: Any, **named: Any) -> Any:
        once(
            "elastic.run: a loss undoes nothing, the others finish the step. When a member joins, all of them go back "
            "to the last state.commit() for their place in the data, and keep what the model has learned"
        )
        while True:
            try:
                world.enter(state)
                result = func(state, *arguments, **named)
                world.finish()
                return result
            except Exception:
                if not world.interrupted():
                    raise

    return wrapper


class State:
    """Attributes that all members hold alike at each :meth:`commit`; in the subclasses, a model, too."""

    def __init__(self, **attributes: Any) -> None:
        self._attributes = list(attributes)
        self._callbacks: list[Callable[[], Any]] = []
        vars(self).update(attributes)

    def register_reset_callbacks(self, callbacks: Iterable[Callable[[], Any]]) -> None:
        """Have these called when the number of members is another one."""
        self._callbacks.extend(callbacks)

    def on_reset(self) -> None:
        """The number of members is another one."""
        for attribute in self._attributes:
            getattr(getattr(self, attribute), "reset", lambda: None)()
        for callback in self._callbacks:
            callback()

    def commit(self) -> None:
        """This is where members that come begin; raises HostsUpdatedInterrupt when the members are others now."""
        world.commit()

    def check_host_updates(self) -> None:
        """Raise HostsUpdatedInterrupt when the members are others now."""
        world.check()

    def save(self) -> None:
        """Nothing: every step is a commit of the model."""

    def restore(self) -> None:
        """Nothing: no loss takes the model back."""
        once("state.restore() does nothing: no loss takes the model back")

    def sync(self) -> None:
        """Nothing: a member that comes receives the state."""

    # ---- for the world ----

    def read(self) -> Sequence[Array]:
        """The values of models; none."""
        return []

    def write(self, values: Sequence[Array]) -> None:
        """Take over values of models."""

    def mark(self) -> bytes:
        """The attributes as they are, pickled."""
        return pickle.dumps({name: _stored(getattr(self, name)) for name in self._attributes})

    def go_back(self, mark: bytes) -> None:
        """Take over attributes."""
        for name, value in pickle.loads(mark).items():
            if hasattr(getattr(self, name), "load_state_dict"):
                getattr(self, name).load_state_dict(value)
            else:
                setattr(self, name, value)


class ObjectState(State):
    """As Horovod's, whose functions that broadcast and ask for the rank are not needed."""

    def __init__(self, bcast_object: Any = None, get_rank: Any = None, **attributes: Any) -> None:
        super().__init__(**attributes)


def _stored(value: Any) -> Any:
    return copy.deepcopy(value.state_dict()) if hasattr(value, "load_state_dict") else value
