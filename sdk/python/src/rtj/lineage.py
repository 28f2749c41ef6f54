"""Choosing the restore point without a controller: by (attempt, step) along the lineage, never by time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from rtj import keys
from rtj.checkpoint import Checkpoint
from rtj.errors import FormatError, NotFoundError, RestoreError
from rtj.formats import Layout, Manifest
from rtj.records import RestorePoint, Start
from rtj.restoring import incompatible
from rtj.stores import Entry, RetryingStore


@dataclass
class Selection:
    """The attempt that begins now, what it continues, and why newer checkpoints were passed over."""

    attempt: int
    restore: RestorePoint | None = None
    passed_over: list[str] = field(default_factory=list)
    candidates: int = 0


def select(
    store: RetryingStore, run: Mapping[str, str], identity: Mapping[str, str], world_size: int, layout: Layout
) -> Selection:
    """Choose the newest complete checkpoint that fits. Raises StoreError when the store cannot be read."""
    ids = sorted(_ids(store.list(keys.MANIFESTS)))
    # Every attempt writes its start record before anything else, so that no number is used twice.
    records = [int(e.key.split("/")[1]) for e in store.list("attempts/") if e.key.split("/")[1].isdigit()]
    result = Selection(attempt=1 + max([0, *records, *(id.attempt for id in ids)]))
    condemned = {entry.key for entry in store.list(keys.QUARANTINE)}
    for id in _candidates(store, ids):
        result.candidates += 1
        reason = _unusable(store, id, run, identity, world_size, layout, condemned)
        if reason is None:
            result.restore = RestorePoint(str(id), id.attempt, id.step)
            return result
        result.passed_over.append(f"{id}: {reason}")
    return result


def another_fits(
    store: RetryingStore, id: str, run: Mapping[str, str], identity: Mapping[str, str], world_size: int, layout: Layout
) -> bool:
    """Whether the branch has another checkpoint that can be used. Raises StoreError or RestoreError if not known."""
    condemned = {entry.key for entry in store.list(keys.QUARANTINE)}
    return any(
        str(other) != id and _unusable(store, other, run, identity, world_size, layout, condemned) is None
        for other in _candidates(store, sorted(_ids(store.list(keys.MANIFESTS))))
    )


def _ids(entries: list[Entry]) -> list[keys.CheckpointID]:
    found = []
    for entry in entries:
        name = entry.key.removeprefix(keys.MANIFESTS)
        try:
            found.append(keys.CheckpointID.parse(name.removesuffix(".json")))
        except FormatError:
            continue  # other people's files
    return found


def _candidates(store: RetryingStore, ids: list[keys.CheckpointID]) -> list[keys.CheckpointID]:
    """Return the branch, newest first: of the highest attempt all, of each earlier one up to where it was left."""
    if not ids:
        return []
    branch: list[keys.CheckpointID] = []
    attempt, until = ids[-1].attempt, None
    while True:
        branch.extend(id for id in reversed(ids) if id.attempt == attempt and (until is None or id.step <= until))
        try:
            data = store.get(keys.start_key(attempt))
            came_from = Start.decode(data, keys.start_key(attempt)).restore
        except (NotFoundError, FormatError):
            return branch
        if came_from is None or came_from.attempt >= attempt:
            return branch
        attempt, until = came_from.attempt, came_from.step


def _unusable(
    store: RetryingStore,
    id: keys.CheckpointID,
    run: Mapping[str, str],
    identity: Mapping[str, str],
    world_size: int,
    layout: Layout,
    condemned: set[str],
) -> str | None:
    if id.quarantine_key in condemned:
        return f"in quarantine; delete {id.quarantine_key} to lift it"
    try:
        checkpoint = Checkpoint.open(store, str(id))
        manifest = checkpoint.manifest
        if manifest.run.get("runID") != run["runID"]:
            return f"belongs to another run, {manifest.run.get('runID')!r}; this one is {run['runID']!r}"
        if (manifest.attempt, manifest.step, manifest.nonce) != (id.attempt, id.step, id.nonce):
            return "attempt, step or nonce in the manifest are not those of its name"
        return (
            _other_identity(identity, manifest.identity)
            or incompatible(manifest, world_size, layout)
            or _incomplete(store, checkpoint, manifest)
        )
    except RestoreError as err:
        if err.cause == "storeError":
            raise
        return str(err)


def _other_identity(declared: Mapping[str, str], written: Mapping[str, str]) -> str | None:
    """Return which declared values differ. As with a controller, what a manifest has beyond them is not compared."""
    differs = [
        f"identity {name} is {value!r}, the checkpoint "
        + (f"says {written[name]!r}" if name in written else "declares none")
        for name, value in sorted(declared.items())
        if written.get(name) != value
    ]
    return "; ".join(differs) or None


def _incomplete(store: RetryingStore, checkpoint: Checkpoint, manifest: Manifest) -> str | None:
    listed = {entry.key.removeprefix(manifest.prefix): entry for entry in store.list(manifest.prefix)}
    for ref in manifest.indexes:
        found = listed.get(ref.key)
        if found is None or (found.bytes, found.etag) != (ref.bytes, ref.etag):
            return f"index object {ref.key} is {'missing' if found is None else 'not the one that was saved'}"
    described = checkpoint.objects()
    if len(described) != manifest.objects or sum(o.bytes for o in described) != manifest.bytes:
        return "the index objects name other data objects than the manifest counts"
    for stored in described:
        found = listed.get(stored.key)
        if found is None or (found.bytes, found.etag) != (stored.bytes, stored.etag):
            return f"data object {stored.key} is {'missing' if found is None else 'not the one that was saved'}"
    return None
