"""Doing several things at once in daemon threads.

Not concurrent.futures: its threads are joined at interpreter exit, so an upload that waits for a store which
is gone would keep the process from ending.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import TypeVar

_T = TypeVar("_T")
_R = TypeVar("_R")


def parallel(function: Callable[[_T], _R], inputs: Iterable[_T], workers: int, name: str) -> list[_R]:
    """Return function(x) for each input, in order, computed by at most ``workers`` threads.

    The first error stops the rest from being begun and is raised once the begun ones ended.
    """
    todo = list(enumerate(inputs))
    results: list[_R | None] = [None] * len(todo)
    errors: list[BaseException] = []
    lock = threading.Lock()
    todo.reverse()

    def work() -> None:
        while True:
            with lock:
                if errors or not todo:
                    return
                position, value = todo.pop()
            try:
                results[position] = function(value)
            except BaseException as err:
                with lock:
                    errors.append(err)
                return

    count = min(workers, len(todo))
    if count <= 1:
        work()
    else:
        threads = [threading.Thread(target=work, name=f"rtj-{name}-{i}", daemon=True) for i in range(count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    if errors:
        raise errors[0]
    return results  # type: ignore[return-value]
