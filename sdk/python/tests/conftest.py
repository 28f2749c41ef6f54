from __future__ import annotations

import os
import shutil
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from world import PATIENCE, World, free_ports

CREDENTIALS = {"AWS_ACCESS_KEY_ID": "tester", "AWS_SECRET_ACCESS_KEY": "not-a-real-secret"}


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    made.stop()


@dataclass
class S3Server:
    """A real S3 server (versitygw) on loopback, its bucket a folder."""

    endpoint: str
    folder: Path
    process: subprocess.Popen[bytes]

    def uri(self, name: str) -> str:
        """A bucket of that name, new."""
        (self.folder / name).mkdir(exist_ok=True)
        return f"s3://{name}/some/prefix"


def s3_server_program() -> str | None:
    """The server's path: RTJ_S3SERVER, or found in PATH."""
    return os.environ.get("RTJ_S3SERVER") or shutil.which("versitygw")


@pytest.fixture(scope="session")
def s3_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    program = s3_server_program()
    if program is None:
        pytest.skip("no S3 server: set RTJ_S3SERVER to the path of versitygw")
    folder = tmp_path_factory.mktemp("s3")
    (folder / "data").mkdir()
    (folder / "side").mkdir()
    (port,) = free_ports(1)
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [program, "--port", f"127.0.0.1:{port}", "posix", "--sidecar", str(folder / "side"), str(folder / "data")],
            env={
                **os.environ,
                "ROOT_ACCESS_KEY": CREDENTIALS["AWS_ACCESS_KEY_ID"],
                "ROOT_SECRET_KEY": CREDENTIALS["AWS_SECRET_ACCESS_KEY"],
            },
            stdout=log,
            stderr=log,
        )
    server = S3Server(f"http://127.0.0.1:{port}", folder / "data", process)
    try:
        _wait_for(server, folder / "log")
        yield server
    finally:
        process.kill()
        process.wait()


def _wait_for(server: S3Server, log: Path) -> None:
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until and server.process.poll() is None:
        try:
            urllib.request.urlopen(server.endpoint, timeout=5)
        except urllib.error.HTTPError:
            return  # it answers, and wants credentials
        except OSError:
            time.sleep(0.05)
        else:
            return
    raise AssertionError(f"the S3 server did not start:\n{log.read_text()}")


@pytest.fixture
def s3(s3_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> S3Server:
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    return s3_server


@pytest.fixture(params=["folder", "s3"])
def any_world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    """A world on a folder, and one on a real S3 server: the same code has to work on both."""
    if request.param == "folder":
        made = World(tmp_path)
    else:
        server: S3Server = request.getfixturevalue("s3")
        made = World(
            tmp_path,
            storage_uri=server.uri(f"bucket-{tmp_path.name.lower().replace('_', '-')}"[:60].rstrip("-")),
            environ={"RTJ_STORAGE_ENDPOINT": server.endpoint, **CREDENTIALS},
        )
    yield made
    made.stop()
