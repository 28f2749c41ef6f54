"""Folder and S3 behave alike; what is transient is tried again, what is refused is not."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from conftest import S3Server
from rtj.deadline import Deadline
from rtj.errors import ConfigurationError, NotFoundError, StoreRefusedError, StoreUnavailableError
from rtj.stores import Bytes, Entry, RetryingStore, open_store, retrying

pytestmark = pytest.mark.filterwarnings("error")


@pytest.fixture(params=["folder", "s3"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> RetryingStore:
    if request.param == "folder":
        return open_store(f"file://{tmp_path}", "a/run")
    server: S3Server = request.getfixturevalue("s3")
    return open_store(
        server.uri(f"stores-{tmp_path.name[-20:].strip('_').lower()}".replace("_", "-")),
        "a/run",
        endpoint=server.endpoint,
    )


def test_what_was_put_is_got_and_listed_with_its_md5_as_etag(store: RetryingStore) -> None:
    etag = store.put("x/00/r0-0", bytearray(b"hello"))
    assert etag == hashlib.md5(b"hello").hexdigest()
    assert store.get("x/00/r0-0") == b"hello"
    assert store.get_range("x/00/r0-0", 1, 3) == b"ell"
    assert store.list("x/") == [Entry("x/00/r0-0", 5, etag)]


def test_a_prefix_is_listed_by_key_and_others_are_not(store: RetryingStore) -> None:
    for key in ("m/b", "m/a", "m/c/d", "mm/e"):
        store.put(key, b"")
    assert [entry.key for entry in store.list("m/")] == ["m/a", "m/b", "m/c/d"]
    assert store.list("nothing/") == []


def test_what_is_not_there_is_not_found(store: RetryingStore) -> None:
    with pytest.raises(NotFoundError):
        store.get("no")
    with pytest.raises(NotFoundError):
        store.get_range("no", 0, 1)
    store.delete("no")


def test_the_same_bytes_put_again_are_the_same_object(store: RetryingStore) -> None:
    assert store.put("k", b"same") == store.put("k", b"same")
    assert len(store.list("")) == 1


def test_deleted_is_gone(store: RetryingStore) -> None:
    store.put("k", b"1")
    store.delete("k")
    assert store.list("") == []


def test_a_large_object_is_one_object_with_one_md5(store: RetryingStore) -> None:
    data = bytearray(b"0123456789abcdef" * (1 << 20))
    assert store.put("large", memoryview(data)) == hashlib.md5(data).hexdigest()
    assert store.get_range("large", len(data) - 3, 3) == b"def"


class TestS3:
    def test_a_bucket_that_is_not_there_is_refused_with_its_name(self, s3: S3Server) -> None:
        with pytest.raises(StoreRefusedError, match=r"no-such-bucket.*NoSuchBucket.*create the bucket"):
            open_store("s3://no-such-bucket/p", endpoint=s3.endpoint).put("k", b"")
        with pytest.raises(StoreRefusedError, match="NoSuchBucket"):
            open_store("s3://no-such-bucket/p", endpoint=s3.endpoint).list("")

    def test_wrong_credentials_are_refused_and_not_shown(self, s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong-and-secret")
        with pytest.raises(StoreRefusedError, match="AWS_SECRET_ACCESS_KEY") as raised:
            open_store(s3.uri("credentials"), endpoint=s3.endpoint).put("k", b"")
        assert "wrong-and-secret" not in str(raised.value)

    def test_no_credentials_are_named_before_anything_is_asked(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("AWS_ACCESS_KEY_ID", raising=False)
        with pytest.raises(
            ConfigurationError, match=r"no credentials for http://127\.0\.0\.1:1: set AWS_ACCESS_KEY_ID"
        ):
            open_store("s3://bucket", endpoint="http://127.0.0.1:1")

    def test_no_server_is_unavailable(self, s3: S3Server) -> None:
        with pytest.raises(StoreUnavailableError, match="gave up"):
            open_store("s3://b/p", endpoint="http://127.0.0.1:1").put("k", b"", Deadline(0.3))

    def test_objects_are_below_prefix_and_run(self, s3: S3Server) -> None:
        open_store(s3.uri("below"), "ns/name/run", endpoint=s3.endpoint).put("k", b"1")
        assert (s3.folder / "below" / "some" / "prefix" / "ns" / "name" / "run" / "k").read_bytes() == b"1"


class TestFolder:
    def test_a_part_that_a_killed_writer_left_is_no_object(self, tmp_path: Path) -> None:
        (tmp_path / "run").mkdir()
        (tmp_path / "run" / ".r0-0.ab12.part").write_bytes(b"half")
        assert open_store(str(tmp_path)).list("") == []

    def test_a_place_that_cannot_be_written_is_refused_at_once(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_bytes(b"")
        with pytest.raises(StoreRefusedError, match=str(tmp_path / "file")):
            open_store(str(tmp_path / "file")).put("k", b"")


@pytest.mark.parametrize(
    ("uri", "says"),
    [("s3://", "names no bucket"), ("gs://bucket", "want s3://"), ("file://", "names no folder")],
)
def test_a_uri_that_is_none_says_what_is_wanted(uri: str, says: str) -> None:
    with pytest.raises(ConfigurationError, match=says):
        open_store(uri)


class Flaky:
    """Fails a number of times, then works."""

    where = "a flaky store"

    def __init__(self, failures: int, error: Exception) -> None:
        self.failures, self.error, self.calls = failures, error, 0

    def put(self, key: str, data: Bytes) -> str:
        self.calls += 1
        if self.calls <= self.failures:
            raise self.error
        return "etag"

    def get(self, key: str) -> bytes:
        raise NotImplementedError

    def get_range(self, key: str, start: int, length: int) -> bytes:
        raise NotImplementedError

    def list(self, prefix: str) -> Iterator[Entry]:
        raise NotImplementedError

    def delete(self, key: str) -> None:
        raise NotImplementedError


def test_unavailable_is_tried_again() -> None:
    flaky = Flaky(3, StoreUnavailableError("503 SlowDown"))
    assert RetryingStore(flaky).put("k", b"") == "etag"
    assert flaky.calls == 4


def test_the_log_says_now_and_then_that_it_is_still_tried(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(retrying, "COMPLAIN_SECONDS", 0.0)
    RetryingStore(Flaky(3, StoreUnavailableError("503 SlowDown"))).put("k", b"")
    assert [message.split(" after")[0] for message in caplog.messages] == [
        "503 SlowDown; trying again",
        "503 SlowDown; still trying",
        "503 SlowDown; still trying",
    ]


def test_refused_is_not_tried_again() -> None:
    flaky = Flaky(3, StoreRefusedError("AccessDenied"))
    with pytest.raises(StoreRefusedError):
        RetryingStore(flaky).put("k", b"")
    assert flaky.calls == 1


def test_a_cancelled_deadline_ends_the_tries_with_its_reason() -> None:
    deadline = Deadline(None)
    deadline.cancel("a yield has no time for it")
    with pytest.raises(StoreUnavailableError, match="gave up: a yield has no time for it"):
        RetryingStore(Flaky(1 << 30, StoreUnavailableError("503"))).put("k", b"", deadline)
