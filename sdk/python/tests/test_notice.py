"""How a yield is heard: by file, by SIGTERM, also while the main thread cannot run Python."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from rtj import formats, outcome
from rtj.notice import Asked, Listener, kill_margin, time_left
from rtj.signals import SigtermEar
from world import World, eventually, swap


@pytest.mark.parametrize(
    ("now", "left"),
    [
        (1000.0, 300.0),  # at once
        (1100.0, 200.0),  # a hundred seconds later
        (400.0, 300.0),  # this host's clock is ten minutes behind: it cannot add time
        (1600.0, 0.0),  # ten minutes ahead: never negative
    ],
)
def test_the_time_left_at_receipt(now: float, left: float) -> None:
    request = formats.YieldRequest(id=3, cause="Preempted", issued_at=1000.0, duration=300.0)
    assert time_left(request, now) == left


class TestMerging:
    def test_the_first_cause_stays_and_the_earlier_time_wins(self) -> None:
        merged = Asked(1, "Preempted", deadline=60.0).merged(Asked(1, "Paused", deadline=30.0))
        assert merged == Asked(1, "Preempted", deadline=30.0)
        assert merged.merged(Asked(1, "Deleted", deadline=50.0)) == merged

    def test_sigterm_adds_the_end_of_the_grace_period(self) -> None:
        merged = Asked(1, "Preempted", deadline=60.0).merged(Asked(1, "Terminated", kill_at=40.0))
        assert merged.left(now=10.0) == 30.0
        assert merged.give_up_at(grace=100.0) == 40.0

    def test_when_the_notice_has_passed_the_grace_period_counts(self) -> None:
        asked = Asked(1, "Preempted", deadline=60.0, kill_at=90.0)
        assert asked.left(now=70.0) == 20.0

    def test_without_sigterm_the_pods_are_killed_a_grace_period_after_the_deadline(self) -> None:
        assert Asked(1, "Preempted", deadline=60.0).give_up_at(grace=30.0) == 60.0 + 30.0 - kill_margin(30.0)

    def test_messages_carry_seconds_left_since_clocks_are_a_hosts_own(self) -> None:
        sent = Asked(1, "Preempted", deadline=160.0, kill_at=None).message("heard", now=100.0)
        assert Asked.read(json.loads(json.dumps(sent)), now=5000.0) == Asked(1, "Preempted", deadline=5060.0)


class TestFiles:
    @pytest.fixture
    def heard(self) -> list[Asked]:
        return []

    @pytest.fixture
    def listener(self, tmp_path: Path, heard: list[Asked]) -> Listener:
        made = Listener(tmp_path / "control", tmp_path / "run", 3, 30.0, heard.append)
        (tmp_path / "control").mkdir()
        (tmp_path / "run").mkdir()
        return made

    def notice(self, cause: str = "Preempted", attempt: int = 3) -> str:
        return json.dumps(
            {
                "schemaVersion": "1.0",
                "kind": "Notice",
                "attempt": attempt,
                "counter": 1,
                "yield": {
                    "id": attempt,
                    "cause": cause,
                    "issuedAt": formats.timestamp(time.time()),
                    "durationSeconds": 300,
                },
            }
        )

    def test_a_swapped_volume_is_read_once_for_each_change(
        self, tmp_path: Path, listener: Listener, heard: list[Asked]
    ) -> None:
        swap(tmp_path / "control", {"notice.json": ""})
        listener.poll()
        assert heard == []
        swap(tmp_path / "control", {"notice.json": self.notice()})
        listener.poll()
        listener.poll()
        assert [asked.cause for asked in heard] == ["Preempted"]

    def test_the_control_document_alone_is_enough(self, tmp_path: Path, listener: Listener, heard: list[Asked]) -> None:
        now = time.time()
        control = {
            "schemaVersion": "1.0",
            "kind": "Control",
            "attempt": 3,
            "yield": {
                "id": 3,
                "cause": "Paused",
                "issuedAt": formats.timestamp(now),
                "deadline": formats.timestamp(now + 60),
                "history": [],
            },
        }
        swap(tmp_path / "control", {"control.json": json.dumps(control), "notice.json": ""})
        listener.poll()
        assert [asked.cause for asked in heard] == ["Paused"]

    @pytest.mark.parametrize(
        "text", ["{", "[]", '{"schemaVersion":"9.0"}', '{"schemaVersion":"1.0","kind":"Notice","attempt":3}']
    )
    def test_what_is_not_a_notice_is_ignored_and_the_next_is_heard(
        self, tmp_path: Path, listener: Listener, heard: list[Asked], text: str
    ) -> None:
        swap(tmp_path / "control", {"notice.json": text})
        listener.poll()
        assert heard == []
        swap(tmp_path / "control", {"notice.json": self.notice()})
        listener.poll()
        assert len(heard) == 1

    def test_another_attempts_documents_are_ignored_and_nothing_is_said_of_it(
        self, tmp_path: Path, listener: Listener, heard: list[Asked], caplog: pytest.LogCaptureFixture
    ) -> None:
        control = json.dumps({"schemaVersion": "1.0", "kind": "Control", "attempt": 2, "yield": {"id": 2}})
        swap(tmp_path / "control", {"control.json": control, "notice.json": self.notice(attempt=2)})
        listener.poll()
        assert heard == []
        assert caplog.records == []

    def test_rtj_run_tells_of_sigterm_by_file(self, tmp_path: Path, listener: Listener, heard: list[Asked]) -> None:
        outcome.tell_sigterm(tmp_path / "run", 1000.0)
        listener.poll()
        assert heard == [Asked(3, "Terminated", kill_at=1000.0 + 30.0 - kill_margin(30.0))]


# Installs a handler of the program's own before ours, after it, or not at all; says who heard.
HANDLERS = """
import signal, sys, threading
from pathlib import Path
from rtj.notice import Listener
order = sys.argv[1]
heard, theirs = threading.Event(), threading.Event()
if order == "before":
    signal.signal(signal.SIGTERM, lambda *_: theirs.set())
listener = Listener(Path("."), None, 1, 30.0, lambda asked: heard.set())
listener.start()
if order == "after":
    signal.signal(signal.SIGTERM, lambda *_: theirs.set())
print("ready", flush=True)
heard.wait(60)
theirs.wait(60 if order != "alone" else 0)
print(heard.is_set(), theirs.is_set(), flush=True)
listener.stop()
"""

# The main thread waits in C for a mutex, as in a collective: no signal makes that call return, and no Python handler
# can run. Only whoever hears the notice unlocks it.
IN_C = """
import ctypes, os, signal, threading, time
from pathlib import Path
from rtj.notice import Listener
libc = ctypes.CDLL(None)
mutex = ctypes.create_string_buffer(256)
handled, before_unlock = [], []
signal.signal(signal.SIGTERM, lambda *_: handled.append(1))
def heard(asked):
    before_unlock.append(len(handled))
    libc.pthread_mutex_unlock(mutex)
listener = Listener(Path("."), None, 1, 30.0, heard)
listener.start()
def send_once_main_waits():
    # /proc/.../syscall shows the number of the call and its first argument, the address waited for.
    main = Path(f"/proc/self/task/{os.getpid()}/syscall")
    while main.read_text().split()[1:2] != [hex(ctypes.addressof(mutex))]:
        time.sleep(0.01)
    os.kill(os.getpid(), signal.SIGTERM)
threading.Thread(target=send_once_main_waits, daemon=True).start()
libc.pthread_mutex_lock(mutex)
libc.pthread_mutex_lock(mutex)
print(before_unlock, flush=True)
listener.stop()
"""


class TestSigterm:
    def run(self, folder: Path, program: str, *arguments: str) -> str:
        process = subprocess.Popen(
            [sys.executable, "-c", program, *arguments], stdout=subprocess.PIPE, text=True, cwd=folder
        )
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGTERM)
        output, _ = process.communicate(timeout=120)
        assert process.returncode == 0
        return output

    def test_it_is_heard_and_swallowed(self, tmp_path: Path) -> None:
        assert self.run(tmp_path, HANDLERS, "alone") == "True False\n"

    def test_a_handler_that_was_there_before_is_called_too(self, tmp_path: Path) -> None:
        assert self.run(tmp_path, HANDLERS, "before") == "True True\n"

    def test_a_handler_installed_later_does_not_make_it_deaf(self, tmp_path: Path) -> None:
        assert self.run(tmp_path, HANDLERS, "after") == "True True\n"

    def test_it_is_heard_while_no_python_handler_can_run(self, tmp_path: Path) -> None:
        command = [sys.executable, "-c", IN_C]
        result = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=120, check=True)
        assert result.stdout == "[0]\n"

    def test_the_handler_does_no_io(self) -> None:
        """It may interrupt anything, a write to the same log included: it sets a flag and passes the signal on."""
        assert set(SigtermEar._handle.__code__.co_names) == {"_flag", "callable", "_before"}

    def test_a_forked_worker_neither_warns_its_parent_nor_survives(self, tmp_path: Path) -> None:
        program = """
import os, signal, threading, time
from pathlib import Path
from rtj.notice import Listener
heard = threading.Event()
listener = Listener(Path("."), None, 1, 30.0, lambda asked: heard.set())
listener.start()
child = os.fork()
if child == 0:
    time.sleep(3600)
    os._exit(0)
time.sleep(0.2)
os.kill(child, signal.SIGTERM)
_, status = os.waitpid(child, 0)
print(os.waitstatus_to_exitcode(status), heard.wait(0.5), flush=True)
listener.stop()
"""
        result = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, cwd=tmp_path, timeout=120, check=True
        )
        assert result.stdout == f"{-signal.SIGTERM} False\n"


def test_a_rank_in_a_collective_acknowledges_sigterm(world: World) -> None:
    """Rank 0 waits in a sum for rank 1, which stalls: neither main thread runs Python."""
    world.begin(1, world_size=2)
    ranks = world.start_ranks("lockstep.py", "1000000", STALL_AT="4", STALLING="0,1")
    world.wait_for_step(3)
    os.kill(ranks[0].pid, signal.SIGTERM)
    progress = eventually("acknowledged", lambda: (p := world.progress()) and p["yield"] and p)
    assert progress["yield"]["acknowledgedAt"]
