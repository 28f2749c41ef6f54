"""Restoring a state in the NumPy form from a checkpoint, also at another number of ranks."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from rtj import tree
from rtj.checkpoint import Checkpoint, Stored, Wanted
from rtj.errors import RestoreError, StateMismatchError
from rtj.formats import Layout, Manifest
from rtj.placement import Placement

log = logging.getLogger("rtj")

FORMAT = "rtj-arrays/1"


def incompatible(manifest: Manifest, world_size: int, layout: Layout) -> str | None:
    """Return why a checkpoint cannot be read at this world size and layout, or None if it can."""
    if manifest.format != FORMAT:
        return f"it has the format {manifest.format!r} of {manifest.framework or 'another framework'}, want {FORMAT}"
    if manifest.world_size == world_size:
        return None
    for name, component in sorted(manifest.components.items()):
        if component.reshard == "none" and component.complete:
            return (
                f"it was saved by {manifest.world_size} ranks and there are {world_size}, "
                f"and component {name} has reshard none"
            )
        if component.reshard == "dp" and manifest.layout.others != layout.others:
            return f"component {name} can be read at another data-parallel size only, and tp, pp, cp or ep differ"
    return None


def restore(
    checkpoint: Checkpoint,
    state: Mapping[str, Any],
    placements: Mapping[str, Placement],
    rank: int,
    world_size: int,
    layout: Layout,
) -> int:
    """Read the checkpoint into the state, in place; random generators last. Returns the bytes read.

    Raises RestoreError; what the state is then is undefined, and the program must end.
    """
    manifest = checkpoint.manifest
    reason = incompatible(manifest, world_size, layout)
    if reason is not None:
        raise StateMismatchError(f"restore: {checkpoint.id} does not fit: {reason}")
    stored_components = _components(manifest, state, placements)
    resized = manifest.world_size != world_size
    ranks = {0} if resized else {0, rank}
    if resized and any(placements[name].kind == "sharded" for name in stored_components):
        ranks = set(range(manifest.world_size))
    items = checkpoint.items(ranks)

    wanted: list[Wanted] = []
    read: list[tuple[str, str, Any, bytearray | None, str | None]] = []
    for component in stored_components:
        kind = placements[component].kind
        found = tree.leaves(component, state[component])
        source = rank if kind in ("rank", "sharded") and not resized else 0
        _same_names(component, found, {n for (r, c, n) in items if c == component and r == source})
        for name, leaf in found.items():
            slices = [items[(source, component, name)]]
            if kind == "sharded" and resized and slices[0].dtype is not None:
                slices = [items[(r, component, name)] for r in range(manifest.world_size)]
            target = tree.destination(leaf)
            data: bytearray | None = None
            if len(slices) == 1:
                only = slices[0]
                tree.mismatch(component, name, leaf, only.dtype, only.shape)
                if target is None:
                    data = bytearray(only.bytes)
                wanted.append(Wanted(only, 0, memoryview(data) if target is None else target))  # type: ignore[arg-type]
            else:
                size = _slice_bytes(component, name, leaf, slices, rank, world_size)
                if target is None:
                    data = bytearray(size)
                whole = memoryview(data) if target is None else target  # type: ignore[arg-type]
                wanted.extend(_resharded(slices, leaf, whole, rank, world_size))
            read.append((component, name, leaf, data, slices[0].encoding))

    total = checkpoint.read(wanted)
    values: dict[str, dict[str, Any]] = {component: {} for component in stored_components}
    generators: list[tuple[str, str, Any, bytearray, str | None]] = []
    for component, name, leaf, data, encoding in read:
        values[component][name] = leaf
        if data is not None and tree.is_generator(leaf):
            generators.append((component, name, leaf, data, encoding))
        elif data is not None:
            values[component][name] = _value(component, name, leaf, data, encoding)
    for component in stored_components:
        try:
            tree.rebuild(state[component], values[component])
        except (ValueError, TypeError, KeyError) as err:
            raise StateMismatchError(f"restore: component {component} does not fit: {err}") from err
    # Positioning a loader may draw random numbers, so generators come after everything else.
    for component, name, leaf, data, encoding in generators:
        _value(component, name, leaf, data, encoding)
    return total


def _value(component: str, name: str, leaf: Any, data: bytearray, encoding: str | None) -> Any:
    try:
        return tree.value(leaf, data, encoding)
    except (ValueError, TypeError, KeyError) as err:
        raise StateMismatchError(f"restore: {component}/{name} does not fit: {err}") from err


def _components(manifest: Manifest, state: Mapping[str, Any], placements: Mapping[str, Placement]) -> list[str]:
    for name, component in sorted(manifest.components.items()):
        if name not in state:
            raise StateMismatchError(f"restore: the checkpoint has a component {name}, the state has none; add it")
        if not component.complete and placements[name].kind != "omitted":
            raise StateMismatchError(
                f"restore: component {name} was left out of the checkpoint on purpose; declare it rtj.omitted() to "
                "go on without it (the run is then not the same as an uninterrupted one)"
            )
    missing = sorted(set(state) - set(manifest.components))
    if missing:
        raise StateMismatchError(
            f"restore: the state has {', '.join(missing)}, the checkpoint only {', '.join(sorted(manifest.components))}"
        )
    left_out = [name for name in state if placements[name].kind == "omitted"]
    if left_out:
        log.warning("restore: %s not restored: declared as omitted", ", ".join(left_out))
    return [name for name in state if placements[name].kind != "omitted"]


def _same_names(component: str, found: Mapping[str, Any], stored: set[str]) -> None:
    extra, missing = sorted(set(found) - stored), sorted(stored - set(found))
    if not extra and not missing:
        return
    parts = []
    if missing:
        parts.append(f"the checkpoint has {', '.join(missing[:5])} and the state has not")
    if extra:
        parts.append(f"the state has {', '.join(extra[:5])} and the checkpoint has not")
    raise StateMismatchError(
        f"restore: component {component}: {'; '.join(parts)}; build the state with the same code as when it was saved"
    )


def split(length: int, rank: int, world_size: int) -> tuple[int, int]:
    """Return start and end of a rank's slice of ``length`` rows, as numpy.array_split cuts them."""
    small, larger = divmod(length, world_size)
    start = rank * small + min(rank, larger)
    return start, start + small + (1 if rank < larger else 0)


def _slice_bytes(component: str, name: str, leaf: Any, slices: list[Stored], rank: int, world_size: int) -> int:
    dtype, shape = tree.shape_of(leaf)
    rows = sum((part.shape or (0,))[0] for part in slices)
    start, end = split(rows, rank, world_size)
    tail = (slices[0].shape or (0,))[1:]
    if dtype != slices[0].dtype or shape != (end - start, *tail):
        raise StateMismatchError(
            f"restore: {component}/{name} has {rows} rows over {len(slices)} ranks in the checkpoint; rank {rank} of "
            f"{world_size} must have {slices[0].dtype}{[end - start, *tail]}, it has {dtype}{list(shape or ())}"
        )
    return sum(part.bytes for part in slices) // max(1, rows) * (end - start)


def _resharded(slices: list[Stored], leaf: Any, whole: memoryview, rank: int, world_size: int) -> list[Wanted]:
    rows = sum((part.shape or (0,))[0] for part in slices)
    row_bytes = sum(part.bytes for part in slices) // max(1, rows)
    start, end = split(rows, rank, world_size)
    wanted = []
    at = 0
    for part in slices:
        below = (part.shape or (0,))[0]
        low, high = max(start, at), min(end, at + below)
        if low < high:
            target = whole[(low - start) * row_bytes : (high - start) * row_bytes]
            wanted.append(Wanted(part, (low - at) * row_bytes, target))
        at += below
    return wanted


def out_of_memory(err: MemoryError) -> RestoreError:
    """Return a MemoryError as a restore failure, which never condemns the checkpoint."""
    return RestoreError(f"restore: out of memory: {err}", cause="outOfMemory")
