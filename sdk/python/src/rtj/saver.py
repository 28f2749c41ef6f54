"""The saves of one rank: at most one uploads in the background."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from rtj import keys, tree
from rtj.deadline import Deadline
from rtj.errors import Error
from rtj.formats import Component
from rtj.objects import LiveItem
from rtj.placement import Placement, placements
from rtj.saving import Buffers, RankSave, Uploaded
from rtj.session import Message
from rtj.stores import RetryingStore

log = logging.getLogger("rtj")

# A periodic save that is not done by then is given up; the next one begins anew.
PERIODIC_SECONDS = 600.0
# The last save, of finish(), is tried this long: what is lost with it is the end of the training, and what it costs
# to wait are idle devices.
FINAL_SECONDS = 3600.0


class Saver:
    """Turns the state into objects and reports to the coordinator. Called by the main thread but for :meth:`drop`."""

    def __init__(
        self,
        store: RetryingStore,
        attempt: int,
        rank: int,
        world_size: int,
        declared: Mapping[str, Placement],
        send: Callable[[Message], None],
    ) -> None:
        self._store = store
        self._attempt = attempt
        self._rank = rank
        self._world_size = world_size
        self._declared = declared
        self._send = send
        self._buffers = Buffers()
        self._current: tuple[str, RankSave, threading.Thread] | None = None
        self._dropped: set[str] = set()
        self._lock = threading.Lock()

    def background(self, step: int, nonce: str, state: Mapping[str, Any]) -> float:
        """Copy the state and store it while training goes on. Returns the seconds that the copy took."""
        before = time.perf_counter()
        save = self._prepare(step, nonce, state, Deadline(PERIODIC_SECONDS))
        if save is None:
            return 0.0
        save.capture()
        seconds = time.perf_counter() - before
        self._start(nonce, save)
        return seconds

    def foreground(self, step: int, nonce: str, state: Mapping[str, Any], deadline: Deadline) -> None:
        """Store the state straight from where it is; returns when this rank's part is stored, or failed."""
        save = self._prepare(step, nonce, state, deadline)
        if save is not None:
            self._start(nonce, save)
            self.wait(deadline)

    def wait(self, deadline: Deadline) -> None:
        """Wait for the upload of this rank's part, until the deadline."""
        current = self._current
        while current is not None and current[2].is_alive() and not deadline.over:
            current[2].join(0.05)

    def drop(self, nonce: str, why: str) -> None:
        """Give up a save, begun or not. Any thread."""
        with self._lock:
            self._dropped.add(nonce)
            current = self._current
        if current is not None and current[0] == nonce:
            current[1].deadline.cancel(why)

    def _prepare(self, step: int, nonce: str, state: Mapping[str, Any], deadline: Deadline) -> RankSave | None:
        try:
            where = placements(self._declared, state)
            own: list[LiveItem] = []
            replicas: list[LiveItem] = []
            for component, value in state.items():
                kind = where[component].kind
                if kind == "omitted":
                    continue
                mine = kind != "replicated" or self._rank == 0
                for name, leaf in tree.leaves(component, value).items():
                    (own if mine else replicas).append(tree.item(component, name, leaf))
        except Error as err:
            log.error("save of step %d: %s", step, err)
            self._send({"type": "saveFailed", "nonce": nonce, "why": str(err)})
            return None
        return RankSave(
            self._store,
            keys.checkpoint_prefix(self._attempt, step, nonce),
            self._rank,
            self._world_size,
            own,
            replicas,
            {name: Component(place.reshard, place.kind != "omitted", place.kind) for name, place in where.items()},
            self._buffers,
            deadline,
        )

    def _start(self, nonce: str, save: RankSave) -> None:
        with self._lock:
            if nonce in self._dropped:
                return
            thread = threading.Thread(target=self._upload, args=(nonce, save), name="rtj-save", daemon=True)
            self._current = (nonce, save, thread)
        thread.start()

    def _upload(self, nonce: str, save: RankSave) -> None:
        try:
            part = save.upload()
        except Exception as err:
            why = str(err) if isinstance(err, Error) else f"{type(err).__name__}: {err}"
            self._send({"type": "saveFailed", "nonce": nonce, "why": why})
            return
        self._send({"type": "uploaded", "nonce": nonce, "part": vars(part)})


def part_of(message: Message) -> Uploaded:
    """Read a rank's part from its message."""
    return Uploaded(**message)
