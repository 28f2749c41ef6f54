"""Tries a store's calls again, with jitter, until a deadline."""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable
from typing import TypeVar

from rtj.deadline import Deadline
from rtj.errors import StoreUnavailableError
from rtj.stores.interface import Bytes, Entry, Store

log = logging.getLogger("rtj")

# Full jitter: a delay is uniform between zero and a bound that doubles.
FIRST_DELAY = 0.1
LONGEST_DELAY = 5.0
DEFAULT_PATIENCE = 60.0
# Whoever reads the log of a job that waits for its store sees that it still does.
COMPLAIN_SECONDS = 60.0

_T = TypeVar("_T")


class RetryingStore:
    """A store whose calls are repeated while it is unavailable.

    Only StoreUnavailableError is tried again; what the store refuses, and what is not there, is raised at once.
    Without a deadline a call is given 60 seconds.
    """

    def __init__(self, store: Store) -> None:
        self._store = store

    @property
    def where(self) -> str:
        """What to call the store in a message."""
        return self._store.where

    def put(self, key: str, data: Bytes, deadline: Deadline | None = None) -> str:
        """Write an object and return its ETag. A repetition writes the same bytes, so it is harmless."""
        return self._tried(lambda: self._store.put(key, data), deadline)

    def get(self, key: str, deadline: Deadline | None = None) -> bytes:
        """Return an object's bytes."""
        return self._tried(lambda: self._store.get(key), deadline)

    def get_range(self, key: str, start: int, length: int, deadline: Deadline | None = None) -> bytes:
        """Return a part of an object."""
        return self._tried(lambda: self._store.get_range(key, start, length), deadline)

    def list(self, prefix: str, deadline: Deadline | None = None) -> list[Entry]:
        """Return a whole listing, begun anew if a page failed."""
        return self._tried(lambda: list(self._store.list(prefix)), deadline)

    def delete(self, key: str, deadline: Deadline | None = None) -> None:
        """Remove an object."""
        self._tried(lambda: self._store.delete(key), deadline)

    def _tried(self, call: Callable[[], _T], deadline: Deadline | None) -> _T:
        limit = deadline if deadline is not None else Deadline(DEFAULT_PATIENCE)
        bound = FIRST_DELAY
        begun = complained = time.monotonic()
        while True:
            try:
                return call()
            except StoreUnavailableError as err:
                if limit.over:
                    raise StoreUnavailableError(f"{err}; gave up: {limit.reason}") from err
                now = time.monotonic()
                if bound == FIRST_DELAY:
                    log.warning("%s; trying again", err)
                elif now - complained >= COMPLAIN_SECONDS:
                    complained = now
                    log.warning("%s; still trying after %.0f s", err, now - begun)
                limit.wait(random.uniform(0, bound))
                bound = min(LONGEST_DELAY, bound * 2)
