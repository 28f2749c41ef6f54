"""rtj-run: starts a pod's ranks, passes SIGTERM on as they need it, and turns what became of them into an exit code.

Made to be PID 1 of a container: ``command: [rtj-run, python, train.py]``. It knows nothing of the store: each
rank leaves its last word in a folder of this machine (rtj.outcome).
"""

from __future__ import annotations

import argparse
import logging
import os
import select
import shutil
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from rtj import exitcodes, outcome, records
from rtj.environment import Values, first_rank
from rtj.errors import ConfigurationError
from rtj.outcome import RUNNING, RankOutcome

log = logging.getLogger("rtj.run")

# What becomes of the others when one process of this pod failed: told at once, ended later.
TOLD_SECONDS = 5.0
KILL_SECONDS = 5.0

# These start the ranks themselves, so one of them is started, whatever RTJ_PROCESSES_PER_POD says.
_LAUNCHERS = {"torchrun", "torch.distributed.run", "accelerate", "deepspeed", "mpirun", "mpiexec", "horovodrun"}
# Of those, these end their ranks at SIGTERM after a time of their own that nothing can change.
_IMPATIENT = _LAUNCHERS - {"torchrun", "torch.distributed.run"}

_USAGE = """rtj-run [--nproc N] [--withhold-sigterm] [--] COMMAND [ARGUMENT...]

exit codes: 0 finished, 75 yielded (checkpoint committed), 76 yield not serviced, 77 restore failed;
any other code is the program's own (128 + signal when a signal ended it)."""


@dataclass
class Child:
    """A process that was started here. ``status`` is its exit code once it has ended."""

    pid: int
    local_rank: int
    rank: int
    status: int | None = None

    def __str__(self) -> str:
        return f"rank {self.rank} (pid {self.pid})"


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s rtj-run: %(message)s", datefmt="%H:%M:%S")
    options, command = read_arguments(sys.argv[1:] if arguments is None else arguments)
    try:
        plan = plan_processes(os.environ, command, options.nproc)
        first = first_rank({**os.environ, **plan[0]})
        grace = _grace(os.environ)
    except ConfigurationError as err:
        log.error("%s", err)
        return exitcodes.USAGE
    withhold = options.withhold_sigterm or launcher(command) in _IMPATIENT
    return Supervisor(command, plan, first, grace, withhold).run()


def read_arguments(argv: list[str]) -> tuple[argparse.Namespace, list[str]]:
    """Return the options and the command, which begins after ``--`` or at the first argument that is no option.

    Ends the process with the usage when there is no command, or an option is unknown.
    """
    parser = argparse.ArgumentParser(prog="rtj-run", usage=_USAGE, allow_abbrev=False)
    parser.add_argument("--nproc", type=int, default=0, metavar="N", help="processes to start on this machine")
    parser.add_argument(
        "--withhold-sigterm",
        action="store_true",
        help="tell the ranks of SIGTERM by file only; for launchers that would kill them too early",
    )
    own, command = _split(argv)
    options = parser.parse_args(own)
    if not command:
        parser.error("no command: rtj-run [--nproc N] python train.py")
    return options, command


def _split(argv: list[str]) -> tuple[list[str], list[str]]:
    at = 0
    while at < len(argv) and argv[at].startswith("-"):
        if argv[at] == "--":
            return argv[:at], argv[at + 1 :]
        at += 2 if argv[at] == "--nproc" else 1
    return argv[:at], argv[at:]


def _grace(environ: Mapping[str, str]) -> float:
    """Return how many seconds after SIGTERM the pod is killed. Raises ConfigurationError."""
    return Values(environ).number("RTJ_TERMINATION_GRACE_SECONDS", 30.0)


def launcher(command: list[str]) -> str | None:
    """Return the launcher that a command is, by its usual name, or None if it is a rank itself."""
    name = Path(command[0]).name
    if name in _LAUNCHERS:
        return name
    if name.startswith("python") and "-m" in command[:-1]:
        module = command[command.index("-m") + 1]
        return module if module in _LAUNCHERS else None
    return None


def plan_processes(environ: Mapping[str, str], command: list[str], asked: int) -> list[dict[str, str]]:
    """Return the variables that each process gets beside its parent's. Raises ConfigurationError."""
    declared = Values(environ).whole("RTJ_PROCESSES_PER_POD", 0, least=1)
    if asked < 0:
        raise ConfigurationError(f"--nproc is {asked}, want at least 1")
    common = {}
    grace = _grace(environ)
    # torchrun kills its ranks 30 s after SIGTERM otherwise, however long the pod still has.
    common["TORCH_ELASTIC_SHUTDOWN_TIMEOUT"] = environ.get(
        "TORCH_ELASTIC_SHUTDOWN_TIMEOUT", str(max(1, int(grace - min(3, grace / 10))))
    )
    if launcher(command) is not None:
        return [common]
    count = asked or declared or 1
    managed = bool(environ.get("RTJ_ATTEMPT"))
    if managed and declared and count != declared:
        raise ConfigurationError(
            f"--nproc is {count} and RTJ_PROCESSES_PER_POD is {declared}: leave --nproc out, "
            "or set spec.trainer.processesPerPod to the same number"
        )
    if not managed:
        common["RTJ_PROCESSES_PER_POD"] = str(count)
        common["RTJ_WORLD_SIZE"] = environ.get("RTJ_WORLD_SIZE", str(count))
        if count > 1:
            # One for rtj, and one for the program's own communication under its usual name.
            for name, port in zip(("RTJ_AGREEMENT_PORT", "MASTER_PORT"), _free_ports(2), strict=True):
                common[name] = environ.get(name, str(port))
            common["MASTER_ADDR"] = environ.get("MASTER_ADDR", "127.0.0.1")
    return [{**common, "RTJ_LOCAL_RANK": str(local)} for local in range(count)]


class Others(Enum):
    """What was done to the other processes of this pod after one failed."""

    LEFT_ALONE = "left alone"
    TOLD_TO_END = "told to end"
    KILLED = "killed"


class Supervisor:
    """Owns the children, the signals and the folder of outcomes, from :meth:`run`'s beginning to its end."""

    def __init__(
        self, command: list[str], plan: list[dict[str, str]], first: int, grace: float, withhold: bool
    ) -> None:
        """``first`` is this pod's first rank; ``grace`` counts from SIGTERM to SIGKILL, in seconds."""
        self._command = command
        self._plan = plan
        self._first = first
        self._grace = grace
        self._withhold = withhold
        self._children: list[Child] = []
        self._run_dir = Path()
        self._signals: list[int] = []
        self._sigterm_at: float | None = None
        self._first_failure: Child | None = None
        self._failed_at: float | None = None
        self._others = Others.LEFT_ALONE

    def run(self) -> int:
        """Start the children, wait for all, and return the exit code."""
        # Signals are only noted by the handler and handled in the loop, which waits for them below.
        read, write = os.pipe()
        os.set_blocking(write, False)
        signal.set_wakeup_fd(write, warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD):
            signal.signal(number, lambda number, frame: self._signals.append(number))
        self._run_dir = _folder()
        try:
            if not self._start():
                return exitcodes.CANNOT_START
            while any(child.status is None for child in self._children):
                self._wait(read)
                self._handle_signals()
                self._reap()
                self._end_others()
            return self._verdict()
        finally:
            for child in self._children:
                if child.status is None:
                    _kill(child, signal.SIGKILL)
            shutil.rmtree(self._run_dir, ignore_errors=True)

    def _start(self) -> bool:
        first = self._first
        for local, variables in enumerate(self._plan):
            environ = {**os.environ, **variables, "RTJ_RUN_DIR": str(self._run_dir)}
            try:
                pid = os.posix_spawnp(
                    self._command[0],
                    self._command,
                    environ,
                    setsigmask=[],
                    setsigdef=[signal.SIGTERM, signal.SIGINT, signal.SIGCHLD, signal.SIGPIPE],
                )
            except OSError as err:
                log.error("cannot start %s: %s", self._command[0], err.strerror)
                return False
            self._children.append(Child(pid, local, first + local))
        ranks = f"rank {first}" if len(self._plan) == 1 else f"ranks {first} to {first + len(self._plan) - 1}"
        log.info("started %s as %s", " ".join(self._command), ranks)
        return True

    def _wait(self, read: int) -> None:
        readable, _, _ = select.select([read], [], [], 0.2)
        if readable:
            os.read(read, 4096)

    def _handle_signals(self) -> None:
        while self._signals:
            number = self._signals.pop(0)
            if number == signal.SIGTERM:
                self._terminate()
            elif number == signal.SIGINT and not sys.stdin.isatty():
                # From a terminal the children, being of the same group, have it already.
                self._forward(signal.SIGINT)
        if self._withhold and self._sigterm_at is not None:
            last_call = self._grace - min(2.0, self._grace / 10)
            if time.monotonic() - self._sigterm_at >= last_call:
                self._withhold = False
                log.warning("the grace period is nearly over: SIGTERM is passed on after all")
                self._forward(signal.SIGTERM)

    def _terminate(self) -> None:
        first = self._sigterm_at is None
        if first:
            self._sigterm_at = time.monotonic()
            outcome.tell_sigterm(self._run_dir, self._sigterm_at)
        if not self._withhold:
            log.info("SIGTERM: passed on, %.0f s are left", self._grace)
            self._forward(signal.SIGTERM)
        elif first:
            log.info("SIGTERM: withheld from %s, its ranks are told; %.0f s are left", self._command[0], self._grace)

    def _forward(self, number: int) -> None:
        for child in self._children:
            if child.status is None:
                _kill(child, number)

    def _reap(self) -> None:
        """Take in every child that ended: as PID 1 also those of others."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            child = next((c for c in self._children if c.pid == pid), None)
            if child is None:
                continue
            code = os.waitstatus_to_exitcode(status)
            child.status = code if code >= 0 else 128 - code
            said = self._word_of(child)
            log.info("%s ended with %s: %s", child, _code(child.status), said)
            if child.status != 0 and self._first_failure is None:
                self._first_failure, self._failed_at = child, time.monotonic()

    def _end_others(self) -> None:
        """One process failed: give the others a moment to notice by themselves, then end them."""
        if self._failed_at is None or self._sigterm_at is not None:
            return
        waited = time.monotonic() - self._failed_at
        left = [child for child in self._children if child.status is None]
        if self._others is Others.LEFT_ALONE and waited >= TOLD_SECONDS and left:
            self._others = Others.TOLD_TO_END
            log.warning("%s failed: ending %s", self._first_failure, ", ".join(map(str, left)))
            self._forward(signal.SIGTERM)
        elif self._others is Others.TOLD_TO_END and waited >= TOLD_SECONDS + KILL_SECONDS and left:
            self._others = Others.KILLED
            log.warning("killing %s", ", ".join(map(str, left)))
            self._forward(signal.SIGKILL)

    def _word_of(self, child: Child) -> str:
        said = next((o for o in outcome.recorded(self._run_dir) if o.pid == child.pid), None)
        if said is None:
            return "it said nothing (not a rank, or rtj.start() was not reached)"
        if said.outcome == RUNNING:
            return f"no outcome was recorded; it was at step {said.step} or later"
        return said.message

    def _verdict(self) -> int:
        said = outcome.recorded(self._run_dir)
        code, why = verdict(said, self._children, self._first_failure)
        log.info("%s: exit code %d", why, code)
        return code


def verdict(said: list[RankOutcome], children: list[Child], first_failure: Child | None) -> tuple[int, str]:
    """Return the exit code and the reason in words, from what the ranks recorded and how the processes ended."""
    outcomes = {o.outcome for o in said}
    if records.RESTORE_FAILED in outcomes:
        return exitcodes.RESTORE_FAILED, _first(said, records.RESTORE_FAILED)
    if first_failure is not None and _crashed(first_failure, said):
        return _own(first_failure)
    if records.NOT_SERVICED in outcomes:
        return exitcodes.NOT_SERVICED, _first(said, records.NOT_SERVICED)
    if said and outcomes == {records.YIELDED}:
        # A launcher may make an error of ranks that left; they know better.
        return exitcodes.YIELDED, said[0].message
    if first_failure is not None:
        return _own(first_failure)
    if said and outcomes == {records.FINISHED}:
        return exitcodes.FINISHED, said[0].message
    if not said:
        return exitcodes.FINISHED, "the program ended with 0 and did not use rtj"
    return exitcodes.FINISHED, f"the program ended with 0, and {_first_other(said)}"


def _crashed(child: Child, said: list[RankOutcome]) -> bool:
    """Whether a process failed on its own: no rank of it has explained that, and no yield was asked of it.

    What the other ranks then recorded is only what they made of the SIGTERM that followed.
    """
    # A launcher is no rank itself: then all ranks are its own.
    words = [o for o in said if o.pid == child.pid] or said
    return all(o.outcome in (RUNNING, records.FAILED) and not o.notice for o in words)


def _own(child: Child) -> tuple[int, str]:
    return child.status or 0, f"{child} failed"


def _first(said: list[RankOutcome], wanted: str) -> str:
    found = next(o for o in said if o.outcome == wanted)
    return f"rank {found.rank}: {found.message}"


def _first_other(said: list[RankOutcome]) -> str:
    found = next(o for o in said if o.outcome != records.FINISHED)
    return f"rank {found.rank} recorded {found.outcome}: {found.message or 'nothing'}"


def _code(status: int) -> str:
    if status > 128:
        try:
            return f"{status} ({signal.Signals(status - 128).name})"
        except ValueError:
            pass
    return str(status)


def _kill(child: Child, number: int) -> None:
    try:
        os.kill(child.pid, number)
    except ProcessLookupError:
        pass


def _folder() -> Path:
    """Return a new folder; in memory where the container's file system is read-only."""
    try:
        return Path(tempfile.mkdtemp(prefix="rtj-run-"))
    except OSError:
        return Path(tempfile.mkdtemp(prefix="rtj-run-", dir="/dev/shm"))


def _free_ports(count: int) -> list[int]:
    probes = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [int(probe.getsockname()[1]) for probe in probes]
    for probe in probes:
        probe.close()
    return ports


if __name__ == "__main__":
    sys.exit(main())
