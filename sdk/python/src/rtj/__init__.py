"""Checkpoint-aware interruption and resumption of distributed training.

::

    job = rtj.start(store="./runs")
    sampler = job.sampler(len(samples), global_batch=64)
    state = job.restore({"model": model, "optimizer": momentum, "rng": rng, "data": sampler})
    for epoch in job.epochs(10):
        for indices in sampler:
            loss = train(state, samples[indices])
            job.step(state=state, loss=loss)
    job.finish()

The state is NumPy arrays and plain values; tensors of other frameworks are given as such (``tensor.numpy()``).
Importing ``rtj`` imports neither NumPy nor an S3 client.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rtj.data import Sampler
    from rtj.errors import (
        AgreementError,
        ConfigurationError,
        DamagedCheckpointError,
        Error,
        FormatError,
        NotFoundError,
        NoUsableCheckpointError,
        RestoreError,
        RestoreIgnoredError,
        SaveError,
        StateMismatchError,
        StoreError,
        StoreRefusedError,
        StoreUnavailableError,
        UnsupportedValueError,
        Yielded,
        YieldNotServiced,
    )
    from rtj.formats import Layout
    from rtj.job import Evaluating, Job, YieldNotice, start
    from rtj.placement import Placement, omitted, per_rank, replicated, sharded

__version__ = "0.1.0"

__all__ = [
    "AgreementError",
    "ConfigurationError",
    "DamagedCheckpointError",
    "Error",
    "Evaluating",
    "FormatError",
    "Job",
    "Layout",
    "NoUsableCheckpointError",
    "NotFoundError",
    "Placement",
    "RestoreError",
    "RestoreIgnoredError",
    "Sampler",
    "SaveError",
    "StateMismatchError",
    "StoreError",
    "StoreRefusedError",
    "StoreUnavailableError",
    "UnsupportedValueError",
    "YieldNotServiced",
    "YieldNotice",
    "Yielded",
    "omitted",
    "per_rank",
    "replicated",
    "sharded",
    "start",
]

# Loaded when first used: importing the package takes a millisecond, whatever it can do.
_HOMES = {
    "AgreementError": "rtj.errors",
    "ConfigurationError": "rtj.errors",
    "DamagedCheckpointError": "rtj.errors",
    "Error": "rtj.errors",
    "Evaluating": "rtj.job",
    "FormatError": "rtj.errors",
    "Job": "rtj.job",
    "Layout": "rtj.formats",
    "NoUsableCheckpointError": "rtj.errors",
    "NotFoundError": "rtj.errors",
    "Placement": "rtj.placement",
    "RestoreError": "rtj.errors",
    "RestoreIgnoredError": "rtj.errors",
    "Sampler": "rtj.data",
    "SaveError": "rtj.errors",
    "StateMismatchError": "rtj.errors",
    "StoreError": "rtj.errors",
    "StoreRefusedError": "rtj.errors",
    "StoreUnavailableError": "rtj.errors",
    "UnsupportedValueError": "rtj.errors",
    "YieldNotServiced": "rtj.errors",
    "YieldNotice": "rtj.job",
    "Yielded": "rtj.errors",
    "omitted": "rtj.placement",
    "per_rank": "rtj.placement",
    "replicated": "rtj.placement",
    "sharded": "rtj.placement",
    "start": "rtj.job",
}


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'rtj' has no attribute {name!r}")
    from importlib import import_module

    value: object = getattr(import_module(home), name)
    globals()[name] = value
    return value
