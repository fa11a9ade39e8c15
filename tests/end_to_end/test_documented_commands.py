"""The commands of README.md and of the tutorial, run in order as a reader runs them."""

from __future__ import annotations

import fcntl
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.ports import reserved_port
from tests.support.processes import end, processes_of
from tests.support.waiting import wait_until

from headrace import __version__
from headrace.config.home import cache_folder

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

ROOT = Path(__file__).parents[2]
PAGES = ["README.md", "docs/tutorial/first-hour.md"]
EXCLUDED = {
    *("make demo", "make test", "make check", "make bench", "make wheel"),
    "python3 -m venv ~/headrace-env",
    f"~/headrace-env/bin/pip install 'dist/headrace-{__version__}-py3-none-any.whl[all]'",
}
"""Commands that other tests and CI run: they install packages or run the tests themselves."""

_BLOCK = re.compile(r"^```sh\n(.*?)^```\n(?:\n*```text\n(.*?)^```$)?", re.DOTALL | re.MULTILINE)
_END = "--- end of block"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Yield the home directory of a reader. The embedded node of its folder lives until the end."""
    reader = tmp_path / "reader"
    home = reader / "first-hour" / ".headrace"
    home.mkdir(parents=True)
    # The archive of Spark's classes is in the cache of the user who runs the tests.
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache_folder().parent))
    monkeypatch.setenv("HOME", str(reader))
    monkeypatch.setenv("HEADRACE_HOME", str(home))
    monkeypatch.setenv("HEADRACE_EMBEDDED__LINGER", "0s")
    # The default port may belong to a node that is not the test's.
    monkeypatch.setenv("HEADRACE_SERVER", "embedded")
    # On a busy machine, a driver may need longer than the default of 2 minutes.
    monkeypatch.setenv("HEADRACE_PROFILES", '{"default": {"start_timeout": "5m"}}')
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    with reserved_port() as port, (home / "commands.lock").open("w") as lock:
        monkeypatch.setenv("HEADRACE_HTTP__PORT", str(port))
        # The node counts the holder of this lock as a command that still runs.
        fcntl.flock(lock, fcntl.LOCK_SH)
        yield reader
    try:
        wait_until(lambda: not processes_of(home), what="the processes of the home have ended")
    finally:
        end(processes_of(home))


def blocks(page: str) -> list[tuple[str, str | None]]:
    """Return the shell blocks of a page, each with the output that the page shows for it."""
    found = _BLOCK.findall((ROOT / page).read_text())
    commands = [(_without_excluded(block), output or None) for block, output in found]
    return [(block, output) for block, output in commands if block]


def _without_excluded(block: str) -> str:
    return "".join(line for line in block.splitlines(True) if line.strip() not in EXCLUDED)


@pytest.mark.finding("U1")
@pytest.mark.parametrize("page", PAGES)
def test_the_commands_of_a_page_run_in_order_and_print_what_it_shows(
    page: str, folder: Path
) -> None:
    expected = blocks(page)
    assert expected, f"{page} has no shell block"
    script = folder / "commands.sh"
    script.write_text("".join(f"{_relocated(block)}echo '{_END}'\n" for block, _ in expected))

    # On a terminal, a table is the default format; here standard output is a pipe.
    run = subprocess.run(
        ["bash", "-e", script],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        env={**os.environ, "HEADRACE_FORMAT": "table"},
        capture_output=True,
        text=True,
        timeout=540,
        check=False,
    )

    outputs = run.stdout.split(f"{_END}\n")
    assert run.returncode == 0, f"stopped in block {len(outputs)}: {run.stderr}"
    for (block, shown), printed in zip(expected, outputs, strict=False):
        if shown is not None:
            assert _trimmed(printed) == _trimmed(shown), f"{block}{run.stderr}"


def _relocated(block: str) -> str:
    """Return commands that use the home and the port of the test."""
    block = block.replace(".headrace/", "$HEADRACE_HOME/")
    return block.replace("localhost:8040", "localhost:$HEADRACE_HTTP__PORT")


def _trimmed(output: str) -> list[str]:
    return [line.rstrip() for line in output.strip("\n").splitlines()]
