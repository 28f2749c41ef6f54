"""How a component of the state lies on the ranks, and at what other world size it can be read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from rtj.errors import ConfigurationError

RESHARD = ("none", "dp", "any")


@dataclass(frozen=True)
class Placement:
    """``kind`` is replicated, rank, sharded or omitted; ``reshard`` is what the manifest says."""

    kind: str
    reshard: str

    def __post_init__(self) -> None:
        if self.reshard not in RESHARD:
            raise ConfigurationError(f"reshard is {self.reshard!r}, want none, dp or any")


def replicated(reshard: str = "any") -> Placement:
    """Every rank holds the same values. Rank 0 writes them, every rank reads them.

    At each save the ranks compare checksums: replicas that differ are an error and nothing is committed.
    """
    return Placement("replicated", reshard)


def per_rank() -> Placement:
    """Every rank has values of its own: readable only at the same world size."""
    return Placement("rank", "none")


def sharded(reshard: str = "dp") -> Placement:
    """Each array is cut along its first axis into one slice per rank, as ``numpy.array_split`` cuts it.

    Readable at another number of ranks: each then reads the slice that it would have there. Values that are no
    arrays must be equal on all ranks.
    """
    return Placement("sharded", reshard)


def omitted() -> Placement:
    """Left out of checkpoints on purpose. The manifest says so, and a restored run is not bit-identical."""
    return Placement("omitted", "none")


# What a component is when nothing is declared. Of one that is not known each rank keeps its own: never wrong.
_USUAL = {
    "model": replicated(),
    "optimizer": replicated(),
    "scheduler": replicated(),
    "data": replicated(),
    "rng": per_rank(),
}


def placements(declared: Mapping[str, Placement], components: Iterable[str]) -> dict[str, Placement]:
    """Return the placement of each component. Raises ConfigurationError if one was declared that is not there."""
    names = list(components)
    unknown = sorted(set(declared) - set(names))
    if unknown:
        raise ConfigurationError(
            f"rtj.start(components=...) declares {', '.join(unknown)}, the state has {', '.join(names) or 'nothing'}"
        )
    return {name: declared.get(name) or _USUAL.get(name) or per_rank() for name in names}
