"""rtj-run: which processes it starts, what it does with SIGTERM, and what its exit code says."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from rtj import records
from rtj.errors import ConfigurationError
from rtj.outcome import RUNNING, RankOutcome
from rtj.run import Child, launcher, plan_processes, read_arguments, verdict
from world import PROGRAMS, Ended, World, ended, eventually

RTJ_RUN = [sys.executable, "-m", "rtj.run"]
ROOT = Path(__file__).parents[3]
COMMAND = re.compile(r"^ *-? *command: *\[(.*)\]$", re.MULTILINE)
DOCUMENTS = [
    path
    for path in [*sorted((ROOT / "examples").rglob("*.yaml")), ROOT / "README.md"]
    if "kind: ResumableTrainingJob" in (text := path.read_text()) and COMMAND.search(text)
]


def said(outcome: str, rank: int = 0, pid: int = 0, notice: bool = False) -> RankOutcome:
    return RankOutcome(rank=rank, pid=pid or 100 + rank, outcome=outcome, step=5, message="m", notice=notice)


def child(rank: int, status: int) -> Child:
    return Child(pid=100 + rank, local_rank=rank, rank=rank, status=status)


class TestVerdict:
    @pytest.mark.parametrize(
        ("outcomes", "statuses", "first_failure", "code"),
        [
            ([records.FINISHED, records.FINISHED], [0, 0], None, 0),
            ([records.YIELDED, records.YIELDED], [0, 0], None, 75),
            ([records.NOT_SERVICED, records.NOT_SERVICED], [76, 76], 0, 76),
            ([records.RESTORE_FAILED, records.RESTORE_FAILED], [1, 1], 0, 77),
            ([RUNNING, records.RESTORE_FAILED], [1, 1], 1, 77),
            # A rank that raised an exception, and one that was killed for it.
            ([records.FAILED, RUNNING], [3, 143], 0, 3),
            # A rank that the kernel killed, and one that then noticed.
            ([RUNNING, records.FAILED], [137, 1], 0, 137),
            # No rtj in the program at all.
            ([], [0], None, 0),
            ([], [42], 0, 42),
            # It ended with 0 and forgot to say that it finished.
            ([records.FAILED], [0], None, 0),
        ],
    )
    def test_codes(self, outcomes: list[str], statuses: list[int], first_failure: int | None, code: int) -> None:
        children = [child(rank, status) for rank, status in enumerate(statuses)]
        words = [said(outcome, rank) for rank, outcome in enumerate(outcomes)]
        failed = None if first_failure is None else children[first_failure]
        assert verdict(words, children, failed)[0] == code

    def test_a_rank_killed_during_a_yield_makes_it_not_serviced(self) -> None:
        children = [child(0, 137), child(1, 76)]
        words = [said(RUNNING, 0, notice=True), said(records.NOT_SERVICED, 1, notice=True)]
        assert verdict(words, children, children[0])[0] == 76

    def test_what_sigterm_after_a_crash_made_of_the_others_does_not_hide_the_crash(self) -> None:
        children = [child(0, 1), child(1, 76)]
        words = [said(records.FAILED, 0), said(records.NOT_SERVICED, 1, notice=True)]
        assert verdict(words, children, children[0])[0] == 1

    def test_a_launcher_that_makes_an_error_of_ranks_that_left_is_not_believed(self) -> None:
        torchrun = Child(pid=7, local_rank=0, rank=0, status=1)
        words = [said(records.YIELDED, rank, notice=True) for rank in range(4)]
        assert verdict(words, [torchrun], torchrun)[0] == 75


class TestPlan:
    @pytest.mark.parametrize(
        ("command", "name"),
        [
            (["torchrun", "train.py"], "torchrun"),
            (["/opt/venv/bin/torchrun", "--nnodes", "2"], "torchrun"),
            (["python", "-m", "torch.distributed.run", "x.py"], "torch.distributed.run"),
            (["mpirun", "-n", "4"], "mpirun"),
            (["python", "train.py"], None),
            (["python3", "-m", "my.trainer"], None),
        ],
    )
    def test_launchers_are_known_by_name(self, command: list[str], name: str | None) -> None:
        assert launcher(command) == name

    def test_a_launcher_is_started_once_whatever_the_processes(self) -> None:
        (only,) = plan_processes({"RTJ_PROCESSES_PER_POD": "8"}, ["torchrun", "train.py"], 0)
        assert "RTJ_LOCAL_RANK" not in only

    def test_torchruns_patience_is_the_pods(self) -> None:
        (only,) = plan_processes({"RTJ_TERMINATION_GRACE_SECONDS": "600"}, ["torchrun"], 0)
        assert only["TORCH_ELASTIC_SHUTDOWN_TIMEOUT"] == "597"

    def test_on_a_cluster_the_number_is_the_jobs(self) -> None:
        managed = {"RTJ_ATTEMPT": "1", "RTJ_PROCESSES_PER_POD": "3", "RTJ_WORLD_SIZE": "6"}
        plan = plan_processes(managed, ["python"], 0)
        assert [p["RTJ_LOCAL_RANK"] for p in plan] == ["0", "1", "2"]
        assert "RTJ_WORLD_SIZE" not in plan[0]
        with pytest.raises(ConfigurationError, match="--nproc is 2 and RTJ_PROCESSES_PER_POD is 3"):
            plan_processes(managed, ["python"], 2)

    def test_without_a_cluster_the_ranks_are_those_here(self) -> None:
        plan = plan_processes({}, ["python"], 2)
        assert {p["RTJ_WORLD_SIZE"] for p in plan} == {"2"}
        ports = {p["RTJ_AGREEMENT_PORT"] for p in plan} | {p["MASTER_PORT"] for p in plan}
        assert len(ports) == 2


class TestArguments:
    @pytest.mark.parametrize(
        ("argv", "nproc", "withheld", "command"),
        [
            (["python", "train.py"], 0, False, ["python", "train.py"]),
            (["--", "python", "train.py"], 0, False, ["python", "train.py"]),
            (["--nproc", "4", "python", "--nproc", "2"], 4, False, ["python", "--nproc", "2"]),
            (["--nproc=4", "--withhold-sigterm", "--", "python"], 4, True, ["python"]),
            # Only the first -- is rtj-run's.
            (["python", "train.py", "--", "x"], 0, False, ["python", "train.py", "--", "x"]),
            (["--", "--strange-name"], 0, False, ["--strange-name"]),
        ],
    )
    def test_the_command_begins_at_the_first_argument_that_is_no_option(
        self, argv: list[str], nproc: int, withheld: bool, command: list[str]
    ) -> None:
        options, found = read_arguments(argv)
        assert (options.nproc, options.withhold_sigterm, found) == (nproc, withheld, command)

    @pytest.mark.parametrize("argv", [[], ["--"], ["--nproc", "2"], ["--nproc"], ["--nprocs", "2", "python"]])
    def test_no_command_or_an_unknown_option_is_an_error(self, argv: list[str]) -> None:
        with pytest.raises(SystemExit) as left:
            read_arguments(argv)
        assert left.value.code == 2

    def test_the_documents_with_commands_are_found(self) -> None:
        assert {"README.md", "minimal.yaml"} <= {path.name for path in DOCUMENTS}

    @pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
    def test_the_commands_of_examples_and_documentation_are_understood(self, path: Path) -> None:
        for line in COMMAND.findall(path.read_text()):
            program, *argv = [word.strip(" \"'") for word in line.split(",")]
            assert program == "rtj-run"
            assert read_arguments(argv)[1] == ["python", "train.py"]


def simple(folder: Path, *command: str, **environ: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*RTJ_RUN, *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=folder,
        env=os.environ | environ,
    )


@pytest.mark.parametrize(
    ("program", "code"),
    [
        ("raise SystemExit(0)", 0),
        ("raise SystemExit(5)", 5),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", 137),
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", 139),
    ],
)
def test_a_program_without_rtj_keeps_its_code(tmp_path: Path, program: str, code: int) -> None:
    assert ended(simple(tmp_path, "--", sys.executable, "-c", program)).code == code


def test_a_program_that_is_not_there_is_named(tmp_path: Path) -> None:
    result = ended(simple(tmp_path, "--", "no-such-program"))
    assert result.code == 127
    assert "cannot start no-such-program: No such file or directory" in result.output


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("RTJ_PROCESSES_PER_POD", "two", "RTJ_PROCESSES_PER_POD is 'two', want a whole number"),
        ("RTJ_PROCESSES_PER_POD", "0", "RTJ_PROCESSES_PER_POD is 0, want at least 1"),
        ("RTJ_TERMINATION_GRACE_SECONDS", "1m", "RTJ_TERMINATION_GRACE_SECONDS is '1m', want a number of seconds"),
        ("RTJ_POD_INDEX", "first", "RTJ_POD_INDEX is 'first', want a whole number"),
    ],
)
def test_a_wrong_variable_is_named(tmp_path: Path, name: str, value: str, says: str) -> None:
    result = ended(simple(tmp_path, "true", **{name: value}))
    assert (result.code, says in result.output, "Traceback" in result.output) == (64, True, False), result.output


def test_without_a_command_the_usage_is_shown(tmp_path: Path) -> None:
    result = ended(simple(tmp_path))
    assert result.code == 2
    assert "rtj-run [--nproc N]" in result.output


def test_orphans_are_reaped(tmp_path: Path) -> None:
    """As PID 1 it inherits what its children leave behind; here it is made their subreaper."""
    program = (
        "import os, sys, time\n"
        "pid = os.fork()\n"
        "if pid == 0:\n"
        "    grandchild = os.fork()\n"
        "    if grandchild == 0:\n"
        "        os._exit(0)\n"
        "    print(grandchild, flush=True)\n"
        "    os._exit(0)\n"
        "os.waitpid(pid, 0)\n"
        "sys.stdin.read()\n"
    )
    wrapper = "import ctypes, sys; ctypes.CDLL(None).prctl(36, 1, 0, 0, 0); from rtj.run import main; sys.exit(main())"
    process = subprocess.Popen(
        [sys.executable, "-c", wrapper, "--", sys.executable, "-c", program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        cwd=tmp_path,
    )
    assert process.stdout is not None
    grandchild = int(process.stdout.readline())
    eventually("the orphan is reaped", lambda: not Path(f"/proc/{grandchild}").exists())
    process.communicate("", timeout=120)
    assert process.returncode == 0


class TestWithRanks:
    """Two ranks in one pod, as on a cluster."""

    def begin(self, world: World, *options: str, arguments: str = "1000000", **extra: str) -> subprocess.Popen[str]:
        world.begin(1, world_size=2)
        world.environ |= {"RTJ_PROCESSES_PER_POD": "2", "RTJ_PODS_PER_JOB": "1"}
        program = [sys.executable, str(PROGRAMS / "lockstep.py"), arguments]
        return world.start([*RTJ_RUN, *options, "--", *program], 0, **extra)

    def stopped(self, process: subprocess.Popen[str]) -> Ended:
        process.send_signal(signal.SIGTERM)
        return ended(process)

    def test_finished_is_0(self, world: World) -> None:
        result = ended(self.begin(world, arguments="5"))
        assert result.code == 0
        assert "finished at step 5: exit code 0" in result.output

    def test_sigterm_becomes_a_committed_checkpoint_and_75(self, world: World) -> None:
        process = self.begin(world)
        world.wait_for_step(3)
        result = self.stopped(process)
        assert result.code == 75, result.output
        assert len(world.manifests()) == 1
        assert "SIGTERM: passed on" in result.output
        assert re.search(r"rank 1 \(pid \d+\) ended with 0: yielded", result.output)

    def test_withheld_sigterm_reaches_the_ranks_by_file(self, world: World) -> None:
        process = self.begin(world, "--withhold-sigterm")
        world.wait_for_step(3)
        result = self.stopped(process)
        assert result.code == 75, result.output
        assert "withheld" in result.output
        assert "rtj: SIGTERM received" not in result.output

    def test_a_yield_that_cannot_be_serviced_is_76(self, world: World) -> None:
        world.environ["RTJ_TERMINATION_GRACE_SECONDS"] = "3"
        process = self.begin(world, STALL_AT="4", STALLING="1")
        world.wait_for_step(3)
        result = self.stopped(process)
        assert result.code == 76, result.output
        assert world.record("result")["outcome"] == "yieldNotServiced"
        assert world.record("result")["lostSteps"] == 3

    def test_a_crash_keeps_its_code_and_ends_the_others(self, world: World) -> None:
        # Both are ranks of pod 0, so RAISING is the same for both; the environment cannot tell them apart.
        result = ended(self.begin(world, RAISE_AT="4", RAISING="1"))
        assert result.code == 1, result.output
        assert "a bug in the training code" in world.record("result")["message"]

    def test_a_killed_rank_is_128_and_the_signal(self, world: World) -> None:
        process = self.begin(world)
        world.wait_for_step(3)
        victim = eventually("rank 1 runs", lambda: rank_pid(process.pid, "1"))
        os.kill(victim, signal.SIGKILL)
        result = ended(process)
        assert result.code == 137, result.output

    def test_a_program_that_forgets_to_finish_is_told(self, world: World) -> None:
        world.begin(1, world_size=1)
        program = "import rtj; job = rtj.start(); job.restore({'model': {'w': 1}})\nfor _ in range(3): job.step()\n"
        result = ended(world.start([*RTJ_RUN, "--", sys.executable, "-c", program]))
        assert result.code == 0
        assert "ended without job.finish()" in result.output
        assert world.record("result")["outcome"] == "failed"

    def test_a_program_that_ignores_the_restore_is_stopped_before_it_overwrites_anything(self, world: World) -> None:
        self.begin(world, arguments="5")
        eventually("the first attempt finished", lambda: world.processes[0].poll() is not None)
        (checkpoint,) = world.checkpoints()
        world.begin(2, world_size=1, restore=checkpoint)
        world.environ |= {"RTJ_PROCESSES_PER_POD": "1"}
        program = "import rtj; job = rtj.start(); job.step(state={'model': {'w': 1}}); job.finish()"
        result = ended(world.start([*RTJ_RUN, "--", sys.executable, "-c", program]))
        assert result.code == 1
        assert f"ResumeIgnored: this attempt continues {checkpoint} (step 5)" in result.output
        assert "ResumeIgnored" in world.record("result")["message"]
        assert world.checkpoints() == [checkpoint]


class TestLaunchers:
    """A launcher that starts the ranks itself, and kills them some time after SIGTERM."""

    def begin(self, world: World, name: str, patience: str) -> subprocess.Popen[str]:
        world.begin(1, world_size=2)
        world.environ |= {"RTJ_PROCESSES_PER_POD": "2", "RTJ_PODS_PER_JOB": "1"}
        # Known by its name, as the real one is.
        launcher = world.folder / name
        launcher.write_text(f"#!{sys.executable}\n" + (PROGRAMS / "fake_launcher.py").read_text())
        launcher.chmod(0o755)
        lockstep = PROGRAMS / "lockstep.py"
        process = world.start([*RTJ_RUN, "--", launcher, patience, lockstep, "1000000"], 0, UPLOAD_SECONDS="2")
        world.wait_for_step(3)
        process.send_signal(signal.SIGTERM)
        return process

    def test_one_whose_patience_can_be_set_gets_the_pods(self, world: World) -> None:
        result = ended(self.begin(world, "torchrun", "patient"))
        assert result.code == 75, result.output
        assert len(world.manifests()) == 1

    def test_from_one_that_kills_early_sigterm_is_kept_back(self, world: World) -> None:
        result = ended(self.begin(world, "deepspeed", "impatient"))
        assert result.code == 75, result.output
        assert len(world.manifests()) == 1
        assert "SIGTERM: withheld from" in result.output


def rank_pid(parent: int, local_rank: str) -> int | None:
    """The process with this local rank below rtj-run."""
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            ppid = int((path.parent / "stat").read_text().rpartition(")")[2].split()[1])
            if ppid == parent and f"RTJ_LOCAL_RANK={local_rank}".encode() in path.read_bytes().split(b"\0"):
                return int(path.parent.name)
        except OSError:
            continue
    return None


def test_nothing_is_left_in_the_temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    process = simple(tmp_path, "--", sys.executable, "-c", "import time; time.sleep(3600)")
    eventually("it runs", lambda: list(tmp_path.glob("rtj-run-*")))
    time.sleep(0.2)
    process.send_signal(signal.SIGTERM)
    assert ended(process).code == 143
    assert list(tmp_path.iterdir()) == []
