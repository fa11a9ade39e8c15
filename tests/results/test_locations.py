"""Places that results live in."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.errors import ResultsUnavailable
from headrace.storage import locations


@pytest.fixture(params=["path", "file", "local", "memory"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return {
        "path": str(tmp_path / "with space"),
        "file": (tmp_path / "with space").as_uri(),
        "local": f"local://{tmp_path}/through-fsspec",
        "memory": f"memory://{tmp_path.name}",
    }[request.param]


def test_what_is_written_is_read_until_it_is_deleted(place: str) -> None:
    locations.make(place)
    if place.startswith("local:"):
        Path(place.removeprefix("local://")).mkdir()
    file = locations.join(place, "a.txt")
    locations.write(file, b"content")
    assert locations.read(file) == b"content"
    with locations.open_to_read(file) as opened:
        opened.seek(3)
        assert opened.read() == b"tent"
    assert locations.exists(file)
    locations.delete(place)
    assert not locations.exists(file)
    with pytest.raises(FileNotFoundError):
        locations.read(file)
    locations.delete(place)


def test_only_what_is_named_is_kept(place: str) -> None:
    locations.make(place)
    if place.startswith("local:"):
        Path(place.removeprefix("local://")).mkdir()
    for name in ("a", "b", "c"):
        locations.write(locations.join(place, name), b"content")
    locations.keep_only(place, {"b"})
    kept = [name for name in ("a", "b", "c") if locations.exists(locations.join(place, name))]
    assert kept == ["b"]


def test_only_uris_of_this_host_are_paths() -> None:
    assert locations.local_path("results/a") == Path("results/a")
    assert locations.local_path("file:///a%20b/c") == Path("/a b/c")
    assert locations.local_path("file:/a/b") == Path("/a/b")
    assert locations.local_path("s3://bucket/a") is None
    assert locations.join("s3://bucket/a/", "b") == "s3://bucket/a/b"


def test_a_file_system_that_there_is_not(tmp_path: Path) -> None:
    for action in (locations.read, locations.delete, locations.exists):
        with pytest.raises(ResultsUnavailable, match="nowhere"):
            action("nowhere://bucket/a")


def test_what_is_in_the_way_is_told(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    with pytest.raises(ResultsUnavailable, match="Not a directory"):
        locations.delete(str(file / "below"))
