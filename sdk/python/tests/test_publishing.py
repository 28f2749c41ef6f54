"""What the program publishes: nothing of it is lost, and nothing waits for it."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from rtj.deadline import Deadline
from rtj.errors import ConfigurationError, StoreRefusedError, StoreUnavailableError
from rtj.publishing import Publications, check
from rtj.stores import Bytes, RetryingStore
from rtj.stores.folder import FolderStore
from world import PATIENCE, eventually


class Faulty(FolderStore):
    """A folder that fails as it is told: ``failures`` once each, in order, and what is in ``never`` always."""

    def __init__(self, folder: Path) -> None:
        super().__init__(str(folder))
        self.failures: list[Exception] = []
        self.never: dict[str, Exception] = {}

    def put(self, key: str, data: Bytes) -> str:
        if self.failures:
            raise self.failures.pop(0)
        if key in self.never:
            raise self.never[key]
        return super().put(key, data)


@pytest.fixture
def store(tmp_path: Path) -> Faulty:
    return Faulty(tmp_path)


@pytest.fixture
def published(store: Faulty) -> Publications:
    return Publications(RetryingStore(store), 1)


def stored(store: Faulty) -> dict[str, bytes]:
    return {entry.key.removeprefix("extra/1/"): store.get(entry.key) for entry in store.list("extra/")}


def test_a_store_that_fails_once_loses_nothing(store: Faulty, published: Publications) -> None:
    for name in "abc":
        published.add(name, name.encode())
    store.failures = [StoreUnavailableError("down")]
    assert not published.flush(Deadline(0))
    assert published.flush(Deadline(60))
    assert stored(store) == {"a": b"a", "b": b"b", "c": b"c"}


def test_what_is_published_after_a_failure_wins_over_what_was_put_back(store: Faulty, published: Publications) -> None:
    published.add("a", b"old")
    store.failures = [StoreUnavailableError("down")]
    assert not published.flush(Deadline(0))
    published.add("a", b"new")
    assert published.flush(Deadline(60))
    assert stored(store) == {"a": b"new"}


def test_what_the_store_refuses_is_dropped_with_an_error(
    store: Faulty, published: Publications, caplog: pytest.LogCaptureFixture
) -> None:
    store.never = {"extra/1/a": StoreRefusedError("no permission")}
    published.add("a", b"a")
    published.add("b", b"b")
    assert published.flush(Deadline(0))
    assert [(r.levelname, r.message) for r in caplog.records] == [
        ("ERROR", "the published object a is dropped: no permission")
    ]
    assert stored(store) == {"b": b"b"}


def test_one_that_always_fails_keeps_no_other_from_being_stored(
    store: Faulty, published: Publications, caplog: pytest.LogCaptureFixture
) -> None:
    store.never = {"extra/1/a": StoreUnavailableError("down")}
    published.add("a", b"a")
    published.add("b", b"b")
    for _ in range(3):
        assert not published.flush(Deadline(0))
    assert stored(store) == {"b": b"b"}
    assert len([r for r in caplog.records if "is not stored yet" in r.message]) == 1, "said once, not each time"


def test_nobody_waits_longer_than_its_deadline_for_another_that_stores(store: Faulty, published: Publications) -> None:
    stop = Deadline(None)
    store.never = {"extra/1/a": StoreUnavailableError("down")}
    published.add("a", b"a")
    storing = threading.Thread(target=published.flush, args=(stop,))
    storing.start()
    try:
        eventually("the other stores", published._storing.locked)
        assert not published.flush(Deadline(0.05))
        assert storing.is_alive()
    finally:
        stop.cancel("the test ends")
        storing.join(PATIENCE)


def test_the_data_is_taken_as_it_is_at_the_call(store: Faulty, published: Publications) -> None:
    buffer = bytearray(b"before")
    published.add("a", buffer)
    buffer[:] = b"after "
    assert published.flush(Deadline(60))
    assert stored(store) == {"a": b"before"}


@pytest.mark.parametrize("name", ["losses.txt", "a/b/c", "a..b", "s p a c e", "größe", "x" * 200])
def test_a_name_below_the_attempts_folder_is_taken(name: str) -> None:
    check(name, b"")


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("", "the name is empty"),
        ("../x", "the name has the part '..'"),
        ("a/../../x", "the name has the part '..'"),
        ("./x", "the name has the part '.'"),
        ("/etc/passwd", "the name has the part ''"),
        ("a//b", "the name has the part ''"),
        ("a/", "the name has the part ''"),
        (".hidden", "begins with a dot"),
        ("a\\b", "a backslash"),
        ("a\nb", "a control character"),
        ("a\0b", "a control character"),
        ("\ud800", "a control character"),
        ("x" * 201, "more than 200 bytes"),
        ("ab/" * 200 + "c", "the name has 601 bytes, at most 512"),
    ],
)
def test_a_name_that_leaves_it_or_cannot_be_a_key_is_refused(name: str, says: str) -> None:
    with pytest.raises(ConfigurationError, match=r"job\.publish") as refused:
        check(name, b"")
    assert says in str(refused.value)


def test_a_folder_refuses_a_name_that_is_a_folder_already(store: Faulty, published: Publications) -> None:
    """Trying again would be of no use."""
    published.add("a/b", b"1")
    published.add("a", b"2")
    assert published.flush(Deadline(60))
    assert stored(store) == {"a/b": b"1"}
