"""The line about a home in a parent folder, which a user may have meant."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.cli.conftest import COMMAND, CompletedCommand
from tests.cli.scripted_node import ScriptedNode
from tests.cli.test_discovery import describe_node, node_of_home
from tests.support.other_user import give_to_other_user

from headrace.cli.support.config import ClientConfig
from headrace.cli.support.discovery import find_parent_home
from headrace.config.home import HomeLayout

pytestmark = pytest.mark.finding("U15")

LIST = ["session", "list", "--format", "json"]
Run = Callable[..., CompletedCommand]


def make_home(folder: Path) -> HomeLayout:
    """Create a home as a node does that has used it."""
    layout = HomeLayout.at(folder / ".headrace")
    layout.create()
    layout.node_id_file.write_text("n")
    return layout


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "projects" / "flights"
    folder.mkdir(parents=True)
    return folder


@pytest.fixture
def run(folder: Path) -> Run:
    """Return a function that runs a command in the folder, with its default home."""

    def run(*arguments: str, **variables: str) -> CompletedCommand:
        environment = {name: value for name, value in os.environ.items() if "HEADRACE" not in name}
        return subprocess.run(
            [*COMMAND, *arguments],
            cwd=folder,
            env={**environment, **variables},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    return run


def note(folder: Path, other: Path) -> str:
    return (
        f"Using the home {folder}/.headrace. A parent folder has another home with other tables, "
        f"{other}/.headrace: choose one with --home or HEADRACE_HOME.\n"
    )


def test_a_command_of_the_default_home_names_the_other_one_and_how_to_choose(
    run: Run, node: ScriptedNode, folder: Path, tmp_path: Path
) -> None:
    make_home(tmp_path)
    layout = make_home(folder)
    with node_of_home(layout, describe_node(node)):
        used = run(*LIST)
        quiet = run("sql", "--quiet", "--detach", "SELECT 1")
        status = run("status")
    stop = run("stop")

    assert (used.stdout, used.stderr) == ("[]\n", note(folder, tmp_path))
    assert quiet.stderr == ""
    assert status.stderr == note(folder, tmp_path)
    assert stop.stderr == f"No node serves the home {layout.path}.\n" + note(folder, tmp_path)


def test_a_home_that_the_user_has_chosen_needs_no_line(
    run: Run, node: ScriptedNode, folder: Path, tmp_path: Path
) -> None:
    make_home(tmp_path)
    layout = make_home(folder)
    with node_of_home(layout, describe_node(node)):
        by_flag = run(*LIST, "--home", ".headrace")
        by_variable = run(*LIST, HEADRACE_HOME=str(layout.path))
    by_server = run(*LIST, "--server", node.address)

    assert [each.returncode for each in (by_flag, by_variable, by_server)] == [0, 0, 0]
    assert by_flag.stderr + by_variable.stderr + by_server.stderr == ""


def test_a_folder_of_the_same_name_or_a_home_of_another_user_is_no_home(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = ClientConfig(home=folder / ".headrace")
    (tmp_path / "projects" / ".headrace").mkdir()
    assert find_parent_home(config) is None

    home = make_home(tmp_path)
    assert find_parent_home(config) == home.path

    give_to_other_user(home.node_id_file, monkeypatch)
    assert find_parent_home(config) is None


def test_a_command_that_only_reads_suggests_the_home_of_the_parent_folder(
    run: Run, folder: Path, tmp_path: Path
) -> None:
    """Port 8040 may belong to another node, so `--server embedded` excludes it."""
    make_home(tmp_path)
    refused = run(*LIST, "--server", "embedded")

    assert refused.returncode == 3
    assert f"for example --home {tmp_path}/.headrace" in refused.stderr
    assert list(folder.iterdir()) == []
