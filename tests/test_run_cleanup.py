"""A test run that is interrupted leaves no process and no folder behind."""

from __future__ import annotations

import json
import os
import secrets
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from tests.support import run_cleanup
from tests.support.run_cleanup import RUN_ID, end_run, is_live, processes_with
from tests.support.waiting import wait_until

ROOT = Path(__file__).parents[1]
_TEST = """
import json, os, subprocess, sys, threading
from pathlib import Path
from tests.support.run_cleanup import RUN_ID, run_folder

def test_that_never_ends():
    stubborn = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"
    orphaned = "import subprocess; subprocess.Popen(['sleep', '600'], start_new_session=True)"
    subprocess.Popen([sys.executable, "-c", stubborn], start_new_session=True)
    subprocess.run([sys.executable, "-c", orphaned], check=True)
    (run_folder() / "file").touch()
    file = Path("run.json")
    file.with_suffix(".new").write_text(json.dumps([os.environ[RUN_ID], str(run_folder())]))
    file.with_suffix(".new").rename(file)
    threading.Event().wait()
"""
_MAKEFILE = "test:\n\t@{python} -m pytest -p tests.support.run_cleanup -c pytest.ini {arguments}\n"


@pytest.fixture
def _ctrl_c_is_not_ignored() -> Iterator[None]:
    """Let child processes react to Ctrl-C, which all processes of a background job ignore."""
    previous = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, previous)


@pytest.fixture
def run(
    _ctrl_c_is_not_ignored: None, workers: str, tmp_path: Path
) -> Iterator[tuple[psutil.Process, str]]:
    """`make test` of a test that has started processes and does not end; the id of the run."""
    arguments = "-n 1" if workers == "with a worker" else "-p no:xdist"
    makefile = _MAKEFILE.format(python=sys.executable, arguments=arguments)
    (tmp_path / "Makefile").write_text(makefile)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "test_one.py").write_text(_TEST)
    with (
        (tmp_path / "log").open("wb") as log,
        subprocess.Popen(
            ["make", "test"],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        ) as make,
    ):
        file = tmp_path / "run.json"

        def has_begun() -> bool:
            assert make.poll() is None, (tmp_path / "log").read_text()
            return file.exists()

        wait_until(has_begun, seconds=180, what="the test runs")
        run_id, folder = json.loads(file.read_text())
        try:
            yield psutil.Process(make.pid), run_id
            make.wait(timeout=60)
            assert not Path(folder).exists()
        finally:
            end_run(run_id, [psutil.Process(make.pid)] if make.poll() is None else [])


_CASES = [
    ("with a worker", "controller", signal.SIGKILL),
    ("with a worker", "make", signal.SIGKILL),
    ("with a worker", "make", signal.SIGTERM),
    ("with a worker", "make", signal.SIGINT),
    ("in one process", "controller", signal.SIGTERM),
]
_MORE_CASES = [
    ("with a worker", "controller", signal.SIGTERM),
    ("with a worker", "controller", signal.SIGINT),
    ("in one process", "controller", signal.SIGKILL),
    ("in one process", "controller", signal.SIGINT),
    ("in one process", "make", signal.SIGKILL),
    ("in one process", "make", signal.SIGTERM),
    ("in one process", "make", signal.SIGINT),
]


@pytest.mark.finding("U21")
@pytest.mark.parametrize(
    ("workers", "target", "number"),
    [*_CASES, *(pytest.param(*case, marks=pytest.mark.matrix) for case in _MORE_CASES)],
)
def test_an_interrupted_run_leaves_nothing(
    run: tuple[psutil.Process, str], target: str, number: signal.Signals
) -> None:
    make, run_id = run
    [controller] = make.children()
    assert len(processes_with(run_id)) >= 2
    if number is signal.SIGINT and target == "make":
        # A terminal sends Ctrl-C to all processes of its group.
        os.killpg(make.pid, signal.SIGINT)
    else:
        (make if target == "make" else controller).send_signal(number)
    wait_until(
        lambda: not processes_with(run_id) and not is_live(controller),
        what="all processes of the run have ended",
    )
    wait_until(lambda: not _guards_of(run_id), what="the guard has ended")


def _guards_of(run_id: str) -> list[psutil.Process]:
    found = psutil.process_iter(["cmdline"])
    return [process for process in found if run_id in (process.info["cmdline"] or [])]


def test_a_guard_that_starts_after_the_end_of_its_run_cleans_up() -> None:
    """A controller can be killed before its guard, a Python process, has started."""
    run_id = secrets.token_hex(6)
    controller = subprocess.Popen(["true"])
    controller.wait()
    environment = {**os.environ, RUN_ID: run_id}
    with subprocess.Popen(["sleep", "600"], env=environment) as orphan:
        command = [sys.executable, run_cleanup.__file__, run_id, str(controller.pid), ""]
        subprocess.run(command, stdin=subprocess.DEVNULL, check=True)
        assert orphan.wait(timeout=60) == -signal.SIGTERM
