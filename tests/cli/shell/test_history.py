"""The file of the history."""

from __future__ import annotations

from pathlib import Path

import pytest
from prompt_toolkit.history import InMemoryHistory

from headrace.cli.shell.repl import history_file, open_history


@pytest.mark.parametrize("relative", [None, "", "relative"])
def test_the_history_is_in_the_state_folder_of_the_user(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, relative: str | None
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    if relative is None:
        monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    else:
        monkeypatch.setenv("XDG_STATE_HOME", relative)
    assert history_file() == tmp_path / ".local" / "state" / "headrace" / "shell_history"
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    assert history_file() == tmp_path / "state" / "headrace" / "shell_history"


def test_a_folder_that_cannot_be_written_costs_only_the_history(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    assert isinstance(open_history(), InMemoryHistory)


def test_a_file_that_others_can_read_is_made_private(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    history_file().parent.mkdir()
    history_file().touch(mode=0o644)
    open_history()
    assert history_file().stat().st_mode & 0o777 == 0o600


def test_a_file_that_fails_later_leaves_the_history_in_memory(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    history = open_history()
    history_file().unlink()
    history_file().mkdir()  # opening a folder fails, for root too
    history.append_string("SELECT 1")
    assert history.get_strings() == ["SELECT 1"]
    assert list(history.load_history_strings()) == []
