"""Small objects of the program's own, stored beside its checkpoints. Nothing else depends on whether that works."""

from __future__ import annotations

import logging
import threading

from rtj import keys
from rtj.deadline import Deadline
from rtj.errors import ConfigurationError, StoreError, StoreRefusedError
from rtj.stores import Bytes, RetryingStore

log = logging.getLogger("rtj")

# S3 has keys of at most 1,024 bytes, of which prefix and run take their part; file systems names of 255.
NAME_BYTES = 512
PART_BYTES = 200


class Publications:
    """What was published and is not stored yet. Any thread; of several under one name the newest is stored."""

    def __init__(self, store: RetryingStore, attempt: int) -> None:
        self._store = store
        self._attempt = attempt
        self._waiting: dict[str, bytes] = {}
        self._lock = threading.Lock()
        # Whoever stores holds this, so that two threads never store one name in the wrong order.
        self._storing = threading.Lock()
        self._complained = False

    def add(self, name: str, data: Bytes) -> None:
        """Take an object as it is now; it has been checked."""
        with self._lock:
            self._waiting[name] = bytes(data)

    def flush(self, deadline: Deadline) -> bool:
        """Store what waits, until the deadline. Never raises; returns whether all of it is stored.

        What the store refuses is dropped with an error in the log. What it cannot take now stays for the next time.
        """
        if not self._storing.acquire(timeout=-1 if deadline.left is None else deadline.left):
            return False
        try:
            return self._flush(deadline)
        finally:
            self._storing.release()

    def _flush(self, deadline: Deadline) -> bool:
        with self._lock:
            left, self._waiting = self._waiting, {}
        while left:
            name = next(iter(left))
            data = left.pop(name)
            try:
                self._store.put(keys.extra_key(self._attempt, name), data, deadline)
            except StoreRefusedError as err:
                log.error("the published object %s is dropped: %s", name, err)
            except StoreError as err:
                # The one that failed goes last, so that it cannot keep the others from being stored.
                with self._lock:
                    self._waiting = {**left, name: data, **self._waiting}
                if not self._complained:
                    self._complained = True
                    log.warning("the published object %s is not stored yet: %s", name, err)
                return False
        self._complained = False
        return True


def check(name: str, data: Bytes) -> None:
    """Raise ConfigurationError unless data is bytes and the name a relative path below the attempt's own folder."""

    def refuse(why: str) -> ConfigurationError:
        return ConfigurationError(f"job.publish({name!r}): {why}; want a relative name such as 'losses.txt' or 'a/b'")

    if not isinstance(name, str) or not name:
        raise refuse("the name is empty" if name == "" else f"the name is {type(name).__name__}")
    if not name.isprintable() or "\\" in name:
        raise refuse("the name has a control character or a backslash")
    size = len(name.encode())
    if size > NAME_BYTES:
        raise ConfigurationError(f"job.publish({name[:40]!r}...): the name has {size} bytes, at most {NAME_BYTES}")
    if not isinstance(data, (bytes, bytearray, memoryview)):
        raise ConfigurationError(f"job.publish({name!r}): the data is {type(data).__name__}, want bytes")
    for part in name.split("/"):
        if part in ("", ".", ".."):
            raise refuse(f"the name has the part {part!r}")
        if part.startswith("."):
            raise refuse(f"the part {part!r} begins with a dot, which listings of a folder leave out")
        if len(part.encode()) > PART_BYTES:
            raise refuse(f"the part {part[:20]!r}... has more than {PART_BYTES} bytes")
