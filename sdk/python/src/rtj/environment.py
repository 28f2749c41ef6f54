"""Which attempt this is, and which rank of it: the environment variables of docs/formats.md."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from rtj.errors import ConfigurationError

AGREEMENT_PORT = 29400
LOCAL_NAMESPACE = "local"
LOCAL_RUN_ID = "local"


@dataclass(frozen=True)
class Environment:
    """What the controller, the kubelet and rtj-run say. Times are in seconds.

    ``managed`` tells whether a controller started this attempt. Without one, attempt 0 and restore None mean
    that rank 0 is still to choose them.
    """

    managed: bool
    namespace: str
    name: str
    run_id: str
    attempt: int
    storage_uri: str
    storage_endpoint: str
    storage_region: str
    restore: str
    world_size: int
    rank: int
    local_rank: int
    leader_address: str
    agreement_port: int
    pod_ip: str
    node_name: str
    control_dir: Path
    run_dir: Path | None
    yield_grace: float
    termination_grace: float
    checkpoint_interval: float
    identity: Mapping[str, str]

    @property
    def run(self) -> dict[str, str]:
        """The run as a manifest names it."""
        return {"namespace": self.namespace, "name": self.name, "runID": self.run_id}

    @property
    def below(self) -> str:
        """The run's folder below the storage URI."""
        return f"{self.namespace}/{self.name}/{self.run_id}"


def read(
    environ: Mapping[str, str], *, store: str | os.PathLike[str] | None = None, name: str | None = None
) -> Environment:
    """Read the environment. ``store`` and ``name`` are for runs without a cluster; the controller's win.

    Raises ConfigurationError that names the variable.
    """
    values = Values(environ)
    managed = bool(environ.get("RTJ_RUN_ID")) and bool(environ.get("RTJ_ATTEMPT"))
    uri = environ.get("RTJ_STORAGE_URI") or ("" if store is None else os.fspath(store))
    if not uri:
        raise ConfigurationError(
            "no store: give rtj.start(store='./runs'), or set RTJ_STORAGE_URI to s3://bucket/prefix or file:///folder"
        )
    world_size = values.whole("RTJ_WORLD_SIZE", values.whole("WORLD_SIZE", 1, least=1), least=1)
    rank, local_rank = _rank(values)
    if rank >= world_size:
        raise ConfigurationError(
            f"this is rank {rank} and there are {world_size} ranks: RTJ_WORLD_SIZE, RTJ_PROCESSES_PER_POD and the "
            "number of processes started do not fit together"
        )
    attempt = values.whole("RTJ_ATTEMPT", 0, least=1 if managed else 0)
    yield_grace = values.number("RTJ_YIELD_GRACE_SECONDS", 300.0)
    run_dir = environ.get("RTJ_RUN_DIR")
    return Environment(
        managed=managed,
        namespace=environ.get("RTJ_NAMESPACE") or LOCAL_NAMESPACE,
        name=environ.get("RTJ_NAME") or name or _script_name(),
        run_id=environ.get("RTJ_RUN_ID") or LOCAL_RUN_ID,
        attempt=attempt if managed else 0,
        storage_uri=uri,
        storage_endpoint=environ.get("RTJ_STORAGE_ENDPOINT", ""),
        storage_region=environ.get("RTJ_STORAGE_REGION", ""),
        restore=environ.get("RTJ_RESTORE", ""),
        world_size=world_size,
        rank=rank,
        local_rank=local_rank,
        leader_address=environ.get("RTJ_LEADER_ADDRESS") or "127.0.0.1",
        agreement_port=values.whole("RTJ_AGREEMENT_PORT", AGREEMENT_PORT, least=1),
        pod_ip=environ.get("RTJ_POD_IP", ""),
        node_name=environ.get("RTJ_NODE_NAME", ""),
        control_dir=Path(environ.get("RTJ_CONTROL_DIR") or "/var/run/rtj"),
        run_dir=Path(run_dir) if run_dir else None,
        yield_grace=yield_grace,
        termination_grace=values.number("RTJ_TERMINATION_GRACE_SECONDS", max(30.0, yield_grace) if managed else 30.0),
        checkpoint_interval=values.number("RTJ_CHECKPOINT_INTERVAL_SECONDS", 600.0),
        identity=_identity(environ.get("RTJ_IDENTITY", "")),
    )


def first_rank(environ: Mapping[str, str]) -> int:
    """Return the first rank of this pod. Raises ConfigurationError."""
    values = Values(environ)
    pods = values.whole("RTJ_PODS_PER_JOB", 1, least=1)
    processes = values.whole("RTJ_PROCESSES_PER_POD", 1, least=1)
    return (values.whole("RTJ_JOB_INDEX", 0) * pods + values.whole("RTJ_POD_INDEX", 0)) * processes


def _rank(values: Values) -> tuple[int, int]:
    if values.environ.get("RTJ_LOCAL_RANK"):
        local = values.whole("RTJ_LOCAL_RANK", 0)
        return first_rank(values.environ) + local, local
    if values.environ.get("RANK"):  # a launcher such as torchrun numbers the ranks itself
        return values.whole("RANK", 0), values.whole("LOCAL_RANK", 0)
    return first_rank(values.environ), 0


def _script_name() -> str:
    script = Path(sys.argv[0]).stem if sys.argv and sys.argv[0] else ""
    return script if script and not script.startswith("-") else "run"


def _identity(text: str) -> dict[str, str]:
    if not text:
        return {}
    try:
        identity = json.loads(text)
    except ValueError as err:
        raise ConfigurationError(f"RTJ_IDENTITY is not JSON: {err}") from err
    if not isinstance(identity, dict) or not all(isinstance(v, str) for v in identity.values()):
        raise ConfigurationError("RTJ_IDENTITY is not a JSON object of strings")
    return identity


class Values:
    """Numbers from environment variables. An empty variable is one that is not set."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self.environ = environ

    def whole(self, name: str, default: int, least: int = 0) -> int:
        """Return a whole number. Raises ConfigurationError that names the variable."""
        text = self.environ.get(name)
        if not text:
            return default
        try:
            value = int(text)
        except ValueError:
            raise ConfigurationError(f"{name} is {text!r}, want a whole number") from None
        if value < least:
            raise ConfigurationError(f"{name} is {value}, want at least {least}")
        return value

    def number(self, name: str, default: float) -> float:
        """Return seconds. Raises ConfigurationError that names the variable."""
        text = self.environ.get(name)
        if not text:
            return default
        try:
            value = float(text)
        except ValueError:
            raise ConfigurationError(f"{name} is {text!r}, want a number of seconds") from None
        if not 0 <= value < float("inf"):
            raise ConfigurationError(f"{name} is {text}, want a number of seconds that is not negative")
        return value
