"""Objects that are read once, in a folder and in an object store (fsspec's own, in memory)."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.storage import handoff, locations


@pytest.fixture(params=["folder", "memory"])
def results(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return str(tmp_path / "results") if request.param == "folder" else f"memory://{tmp_path.name}"


def test_what_was_taken_is_gone(results: str) -> None:
    place = handoff.put(results, "headrace-se_1-1", b"secret")
    assert handoff.take(place) == b"secret"
    with pytest.raises(FileNotFoundError):
        handoff.take(place)


def test_a_name_does_not_tell_the_place(results: str) -> None:
    first, second = (handoff.put(results, "headrace-se_1-1", b"secret") for _ in range(2))
    assert first != second
    assert len(first.rpartition(".")[2]) >= 43


def test_what_was_not_taken_is_removed_by_its_name(results: str) -> None:
    handoff.remove(results, "headrace-se_1-1")
    places = [handoff.put(results, name, b"secret") for name in ("se_1-1", "se_1-11")]
    handoff.remove(results, "se_1-1")
    assert [locations.exists(place) for place in places] == [False, True]


def test_in_a_folder_only_the_owner_may_read_it(tmp_path: Path) -> None:
    place = Path(handoff.put(str(tmp_path), "headrace-se_1-1", b"secret"))
    assert place.stat().st_mode & 0o777 == 0o600
