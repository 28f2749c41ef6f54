"""The data position: which samples a rank takes, as a pure function of (seed, epoch, samples consumed)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from rtj.errors import ConfigurationError
from rtj.restoring import split

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray


class Sampler:
    """Yields, batch by batch, the indices of this rank's samples for the rest of the epoch.

    ``length`` is the number of samples in the data set, ``global_batch`` how many all ranks together take in one
    iteration. Every epoch is another permutation, drawn from (seed, epoch). A last incomplete batch is dropped.
    The ranks take consecutive parts of each batch, so another number of ranks sees the same batches.

    Put it into the state (``{"data": sampler}``): its position is then saved and restored. It counts a batch when
    it hands it out, so take a batch only when it is about to be trained on.
    """

    def __init__(
        self,
        length: int,
        global_batch: int,
        *,
        seed: int = 0,
        rank: int = 0,
        world_size: int = 1,
        shuffle: bool = True,
    ) -> None:
        if not 1 <= global_batch <= length:
            raise ConfigurationError(f"global_batch is {global_batch}, want 1 to length ({length})")
        if global_batch < world_size:
            raise ConfigurationError(
                f"global_batch is {global_batch}, less than one sample for each of {world_size} ranks"
            )
        self.length = length
        self.global_batch = global_batch
        self.seed = seed
        self.epoch = 0
        self.consumed = 0
        self._rank = rank
        self._world_size = world_size
        self._shuffle = shuffle

    @property
    def batches(self) -> int:
        """The number of batches in an epoch."""
        return self.length // self.global_batch

    def begin(self, epoch: int) -> None:
        """Go to the beginning of an epoch, unless it is the present one, which is gone on with."""
        if epoch != self.epoch:
            self.epoch, self.consumed = epoch, 0

    def __iter__(self) -> Iterator[NDArray[numpy.int64]]:
        """Yield the rest of the epoch."""
        order = self._order()
        while self.consumed + self.global_batch <= self.length:
            batch = order[self.consumed : self.consumed + self.global_batch]
            self.consumed += self.global_batch
            start, end = split(self.global_batch, self._rank, self._world_size)
            yield batch[start:end]

    def _order(self) -> NDArray[numpy.int64]:
        import numpy

        if not self._shuffle:
            return numpy.arange(self.length)
        return numpy.random.Generator(numpy.random.PCG64([self.seed, self.epoch])).permutation(self.length)

    def state_dict(self) -> dict[str, Any]:
        """Return the position. The number of ranks is not part of it."""
        return {
            "seed": self.seed,
            "epoch": self.epoch,
            "consumed": self.consumed,
            "length": self.length,
            "globalBatch": self.global_batch,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go to a position. Raises ValueError when it is one of other data or another batch size."""
        if (state["length"], state["globalBatch"]) != (self.length, self.global_batch):
            raise ValueError(
                f"the position is of {state['length']} samples in batches of {state['globalBatch']}, "
                f"the sampler has {self.length} in batches of {self.global_batch}"
            )
        self.seed, self.epoch, self.consumed = state["seed"], state["epoch"], state["consumed"]
