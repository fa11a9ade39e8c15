"""Handoff objects in a local folder and in an object store (fsspec's in-memory file system)."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.files.locations import delete_handoffs, read_and_delete_handoff, write_handoff


@pytest.fixture(params=["folder", "memory"])
def results(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return str(tmp_path / "results") if request.param == "folder" else f"memory://{tmp_path.name}"


def test_a_handoff_can_be_read_once(results: str) -> None:
    location = write_handoff(results, "headrace-se_1-1", b"secret")
    assert read_and_delete_handoff(location) == b"secret"
    with pytest.raises(FileNotFoundError):
        read_and_delete_handoff(location)


def test_the_location_cannot_be_guessed_from_the_name(results: str) -> None:
    first, second = (write_handoff(results, "headrace-se_1-1", b"secret") for _ in range(2))
    assert first != second
    assert len(first.rpartition(".")[2]) >= 43


def test_unread_handoffs_are_deleted_by_their_exact_name(results: str) -> None:
    delete_handoffs(results, "headrace-se_1-1")
    handoffs = [write_handoff(results, name, b"secret") for name in ("se_1-1", "se_1-11")]
    delete_handoffs(results, "se_1-1")
    with pytest.raises(FileNotFoundError):
        read_and_delete_handoff(handoffs[0])
    assert read_and_delete_handoff(handoffs[1]) == b"secret"


def test_only_the_owner_can_read_a_handoff_in_a_local_folder(tmp_path: Path) -> None:
    file = Path(write_handoff(str(tmp_path), "headrace-se_1-1", b"secret"))
    assert file.stat().st_mode & 0o777 == 0o600
