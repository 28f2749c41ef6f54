"""Saving the states of several ranks in this process, as the ranks themselves would."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rtj import keys, saving
from rtj.deadline import Deadline
from rtj.formats import Layout
from rtj.placement import Placement
from rtj.restoring import FORMAT
from rtj.saver import Saver, part_of
from rtj.session import Message
from rtj.stores import RetryingStore
from world import RUN


def save(
    store: RetryingStore,
    states: Sequence[Mapping[str, Any]],
    declared: Mapping[str, Placement] | None = None,
    *,
    attempt: int = 1,
    step: int = 10,
    layout: Layout | None = None,
    identity: Mapping[str, str] | None = None,
) -> str:
    """Commit a checkpoint with one state for each rank; returns its id."""
    nonce = keys.new_nonce()
    parts: list[Message] = []
    for rank, state in enumerate(states):
        saver = Saver(store, attempt, rank, len(states), declared or {}, parts.append)
        saver.foreground(step, nonce, state, Deadline(60))
    failed = [part["why"] for part in parts if part["type"] == "saveFailed"]
    if failed:
        raise AssertionError(failed)
    what = saving.Commit(
        run=RUN,
        identity=identity or {},
        attempt=attempt,
        step=step,
        nonce=nonce,
        layout=layout or Layout(dp=len(states)),
        world_size=len(states),
        framework="numpy",
        format=FORMAT,
        saved_at="2026-03-01T10:00:00Z",
        yield_id=None,
    )
    checkpoint, _ = saving.commit(store, what, [part_of(part["part"]) for part in parts], Deadline(60))
    return str(checkpoint)
