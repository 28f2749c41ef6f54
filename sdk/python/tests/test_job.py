"""The public face, with a single rank and a folder."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

PRELUDE = """
import logging, os, signal, sys, time
import numpy as np
import rtj
def state():
    return {"model": {"w": np.zeros(2)}, "rng": np.random.default_rng(1)}
"""


@pytest.fixture(autouse=True)
def _no_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in os.environ:
        if name.startswith(("RTJ_", "AWS_")):
            monkeypatch.delenv(name)


def run(folder: Path, program: str, *, code: int = 0, **environ: str) -> subprocess.CompletedProcess[str]:
    result = subprocess.run(
        [sys.executable, "-c", PRELUDE + program],
        env=os.environ | environ,
        capture_output=True,
        text=True,
        cwd=folder,
        timeout=120,
        check=False,
    )
    assert result.returncode == code, result.stderr
    return result


def records(folder: Path, name: str = "run") -> dict[str, dict[str, object]]:
    root = folder / "runs" / "local" / name / "local" / "attempts"
    return {path.relative_to(root).as_posix(): json.loads(path.read_text()) for path in root.glob("*/*.json")}


def test_importing_it_imports_neither_numpy_nor_an_s3_client() -> None:
    program = (
        "import sys, rtj; print(sorted(m for m in sys.modules if m in ('numpy', 'obstore', 'logging', 'dataclasses')))"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=True)
    assert result.stdout == "[]\n"


def test_every_public_name_is_there() -> None:
    import rtj

    assert all(getattr(rtj, name) is not None for name in rtj.__all__)
    with pytest.raises(AttributeError, match="no attribute 'stop'"):
        rtj.stop  # noqa: B018


def test_a_run_leaves_its_three_records(tmp_path: Path) -> None:
    program = """
job = rtj.start(store='runs', name='run', total_steps=3)
for _ in range(3): job.step(state=state())
job.finish()
"""
    run(tmp_path, program)
    found = records(tmp_path)
    assert sorted(found) == ["1/progress.json", "1/result.json", "1/start.json"]
    assert found["1/start.json"]["restore"] is None
    assert (found["1/progress.json"]["step"], found["1/progress.json"]["totalSteps"]) == (3, 3)
    assert found["1/progress.json"]["firstStepAt"] is not None


def test_yielded_is_an_exit_of_code_0_that_runs_finally_blocks(tmp_path: Path) -> None:
    program = """
job = rtj.start(store='runs', name='run')
s = job.restore(state())
try:
    try:
        while True:
            if job.steps == 3:
                os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(0.01)
            job.step(state=s)
    except Exception:
        print("swallowed")
finally:
    print("finally at", job.steps > 3)
"""
    assert run(tmp_path, program).stdout == "finally at True\n"
    assert records(tmp_path)["1/result.json"]["outcome"] == "yielded"


def test_should_yield_tells_the_cause_and_the_time_left(tmp_path: Path) -> None:
    program = """
job = rtj.start(store='runs', name='run')
s = job.restore(state())
job.step(state=s)
assert job.should_yield() is None
os.kill(os.getpid(), signal.SIGTERM)
while (notice := job.should_yield()) is None:
    time.sleep(0.01)
print(notice.cause, 0 < notice.seconds_left <= 30)
while True:
    job.step(state=s)
"""
    assert run(tmp_path, program).stdout == "Terminated True\n"


def test_a_yield_in_an_evaluation_without_batches_is_answered_at_its_end(tmp_path: Path) -> None:
    program = """
job = rtj.start(store='runs', name='run')
s = job.restore(state())
for _ in range(4): job.step(state=s)
with job.evaluating():
    os.kill(os.getpid(), signal.SIGTERM)
    while job.should_yield() is None:
        time.sleep(0.01)
    time.sleep(0.3)
print("not reached")
"""
    assert run(tmp_path, program).stdout == ""
    assert records(tmp_path)["1/result.json"]["step"] == 4


def test_an_exception_in_an_evaluation_is_not_hidden_by_the_yield(tmp_path: Path) -> None:
    program = """
job = rtj.start(store='runs', name='run')
job.step(state=state())
with job.evaluating():
    raise ValueError("broken metric")
"""
    assert "ValueError: broken metric" in run(tmp_path, program, code=1).stderr


def test_a_second_start_is_refused_while_the_first_runs(tmp_path: Path) -> None:
    program = """
rtj.start(store='runs', name='run')
try:
    rtj.start(store='runs', name='other')
except rtj.ConfigurationError as err:
    print(err)
"""
    assert "one job at a time" in run(tmp_path, program).stdout


@pytest.mark.parametrize(
    ("program", "says"),
    [
        ("rtj.start()", "no store: give rtj.start"),
        ("rtj.start(store='gs://x')", "want s3://bucket/prefix or file:///folder"),
        ("rtj.start(store='runs').step()", "nothing to save: give job.restore"),
        ("rtj.start(store='runs').step(state=[1])", "the state must be a dict of components"),
        ("rtj.start(store='runs').step(state={'model': {'f': open}}) ", "model/f: builtins.builtin_function"),
        (
            "rtj.start(store='runs', components={'modle': rtj.replicated()}).step(state=state())",
            "declares modle, the state has model, rng",
        ),
        (
            "class Tensor:\n    def numpy(self): pass\nrtj.start(store='runs').step(state={'model': {'w': Tensor()}})",
            "state model/w: __main__.Tensor cannot be stored; give its NumPy array: tensor.numpy()",
        ),
        ("rtj.start(store='runs').publish('../x', b'')", "job.publish('../x'): the name has the part '..'"),
        ("rtj.start(store='runs').publish('x', 'text')", "job.publish('x'): the data is str, want bytes"),
        ("list(rtj.start(store='runs').epochs(3))", "make a job.sampler()"),
        ("rtj.replicated(reshard='some')", "want none, dp or any"),
    ],
)
def test_a_mistake_in_the_program_is_named(tmp_path: Path, program: str, says: str) -> None:
    assert says in run(tmp_path, program, code=1).stderr


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("RTJ_WORLD_SIZE", "two", "RTJ_WORLD_SIZE is 'two', want a whole number"),
        ("RTJ_WORLD_SIZE", "0", "RTJ_WORLD_SIZE is 0, want at least 1"),
        ("RTJ_POD_INDEX", "5", "this is rank 5 and there are 1 ranks"),
        ("RTJ_CHECKPOINT_INTERVAL_SECONDS", "-1", "want a number of seconds"),
        ("RTJ_LOG_LEVEL", "loud", "RTJ_LOG_LEVEL is 'loud', want DEBUG"),
        ("RTJ_IDENTITY", "{", "RTJ_IDENTITY is not JSON"),
        ("RTJ_IDENTITY", '{"a": 1}', "RTJ_IDENTITY is not a JSON object of strings"),
    ],
)
def test_a_mistake_in_the_environment_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: str, says: str
) -> None:
    monkeypatch.setenv(name, value)
    assert says in run(tmp_path, "rtj.start(store='runs')", code=1).stderr


def test_checkpoints_of_which_none_fits_are_not_silently_ignored(tmp_path: Path) -> None:
    run(tmp_path, "job = rtj.start(store='runs', name='run'); job.step(state=state()); job.finish()")
    again = "job = rtj.start(store='runs', name='run'{}); print(job.attempt, job.restored_from)"
    changed = '{"codeVersion": "v8"}'
    result = run(tmp_path, again.format(""), code=1, RTJ_IDENTITY=changed)
    assert "none can be used" in result.stderr
    assert "identity codeVersion is 'v8', the checkpoint declares none" in result.stderr
    assert run(tmp_path, again.format(", on_none='fresh'"), RTJ_IDENTITY=changed).stdout == "2 None\n"


def test_an_earlier_checkpoint_can_be_asked_for(tmp_path: Path) -> None:
    train = "job = rtj.start(store='runs', name='run'); s = job.restore(state()); job.step(state=s); job.finish()"
    run(tmp_path, train)
    run(tmp_path, train)
    (first, second) = sorted(path.stem for path in (tmp_path / "runs/local/run/local/manifests").iterdir())
    shown = "job = rtj.start(store='runs', name='run'); print(job.restored_from, job.steps)"
    assert run(tmp_path, shown).stdout == f"{second} 2\n"
    assert run(tmp_path, shown, RTJ_RESTORE=first).stdout == f"{first} 1\n"


def test_training_goes_on_when_a_periodic_save_fails(tmp_path: Path) -> None:
    program = """
from rtj.stores.folder import FolderStore
put = FolderStore.put
def full(self, key, data):
    if key.startswith("checkpoints/") and job.steps < 60:
        raise rtj.StoreRefusedError(f"cannot write {key}: No space left on device")
    return put(self, key, data)
FolderStore.put = full
job = rtj.start(store='runs', name='run')
s = job.restore(state())
for n in range(60):
    if n == 5:
        job.save()
    time.sleep(0.01)
    job.step(state=s)
job.finish()
"""
    result = run(tmp_path, program)
    assert "No space left on device; training goes on" in result.stderr
    assert records(tmp_path)["1/result.json"]["outcome"] == "finished"


def test_a_last_save_that_fails_is_an_error_and_no_completion(tmp_path: Path) -> None:
    program = """
from rtj.stores.folder import FolderStore
put = FolderStore.put
def full(self, key, data):
    if key.startswith("checkpoints/"):
        raise rtj.StoreRefusedError(f"cannot write {key}: No space left on device")
    return put(self, key, data)
FolderStore.put = full
job = rtj.start(store='runs', name='run')
job.step(state=state())
job.finish()
"""
    result = run(tmp_path, program, code=1)
    assert "AgreementError: the last checkpoint could not be saved" in result.stderr
    assert "No space left on device" in result.stderr
    assert records(tmp_path)["1/result.json"]["outcome"] == "failed"


def test_what_was_published_before_a_step_is_there_when_its_checkpoint_is(tmp_path: Path) -> None:
    program = """
job = rtj.start(store='runs', name='run')
s = job.restore(state())
text = b""
for n in range(1, 31):
    text += f"{n}\\n".encode()
    job.publish("log.txt", text)
    job.step(state=s)
    if n == 30:
        job.finish()
"""
    run(tmp_path, program)
    assert (tmp_path / "runs/local/run/local/extra/1/log.txt").read_text().splitlines()[-1] == "30"


# A store that answers for everything but what the program publishes.
NO_EXTRAS = """
import rtj.office
from rtj.stores.folder import FolderStore
put = FolderStore.put
def partly(self, key, data):
    if key.startswith("extra/"):
        raise rtj.{error}("no room for " + key)
    return put(self, key, data)
FolderStore.put = partly
rtj.office.PUBLISH_SECONDS = 0.1
rtj.office.FINISH_SECONDS = rtj.office.RESULT_SECONDS = 1.0
job = rtj.start(store='runs', name='run')
s = job.restore(state())
for n in range(3):
    job.publish("losses.txt", b"0.5")
    job.step(state=s)
"""


@pytest.mark.parametrize(
    ("error", "says"),
    [
        ("StoreRefusedError", "the published object losses.txt is dropped: no room for extra/1/losses.txt"),
        ("StoreUnavailableError", "the published object losses.txt is not stored yet: no room for extra/1/losses.txt"),
    ],
)
def test_neither_checkpoint_nor_completion_depends_on_what_is_published(tmp_path: Path, error: str, says: str) -> None:
    result = run(tmp_path, NO_EXTRAS.replace("{error}", error) + "job.finish(); print('finished')")
    assert says in result.stderr
    assert result.stdout == "finished\n"
    assert records(tmp_path)["1/result.json"]["outcome"] == "finished"
    (checkpoint,) = (tmp_path / "runs/local/run/local/manifests").iterdir()
    assert checkpoint.name.startswith("000001-000000000003-")


def test_a_yield_does_not_depend_on_what_is_published(tmp_path: Path) -> None:
    program = NO_EXTRAS.replace("{error}", "StoreUnavailableError") + (
        "os.kill(os.getpid(), signal.SIGTERM)\nwhile True: time.sleep(0.01); job.step(state=s)\n"
    )
    run(tmp_path, program)
    assert records(tmp_path)["1/result.json"]["outcome"] == "yielded"


def test_a_last_save_is_not_tried_for_ever(tmp_path: Path) -> None:
    program = """
import rtj.job
from rtj.stores.folder import FolderStore
put = FolderStore.put
def down(self, key, data):
    if key.startswith("checkpoints/"):
        raise rtj.StoreUnavailableError("the store is down")
    return put(self, key, data)
FolderStore.put = down
rtj.job.FINAL_SECONDS = 0.3
job = rtj.start(store='runs', name='run')
job.step(state=state())
job.finish()
"""
    result = run(tmp_path, program, code=1)
    assert "the last checkpoint could not be saved: rank 0: the store is down; gave up" in result.stderr


def test_rank_0_leaves_before_it_is_killed_also_when_its_result_cannot_be_recorded(tmp_path: Path) -> None:
    """The checkpoint is committed; the write of the result record hangs."""
    program = """
from rtj.stores.folder import FolderStore
put = FolderStore.put
def hang(self, key, data):
    if key.endswith("result.json"):
        time.sleep(3600)
    return put(self, key, data)
FolderStore.put = hang
job = rtj.start(store='runs', name='run')
s = job.restore(state())
os.kill(os.getpid(), signal.SIGTERM)
while True:
    time.sleep(0.01)
    job.step(state=s)
"""
    result = run(tmp_path, program, RTJ_TERMINATION_GRACE_SECONDS="2")
    assert "the result record is not written in the time that there was" in result.stderr
    assert len(list((tmp_path / "runs/local/run/local/manifests").iterdir())) == 1


def test_a_store_that_cannot_be_written_is_an_error_at_the_start(tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("a file")
    result = run(tmp_path, "rtj.start(store='runs')", code=1)
    assert "StoreRefusedError" in result.stderr


def test_messages_go_through_logging_where_the_program_has_set_it_up(tmp_path: Path) -> None:
    program = """
logging.basicConfig(format="mine %(name)s %(message)s", level=logging.INFO)
job = rtj.start(store='runs', name='run'); job.step(state=state()); job.finish()
"""
    lines = run(tmp_path, program).stderr.splitlines()
    assert lines
    assert all(line.startswith("mine rtj ") for line in lines)
