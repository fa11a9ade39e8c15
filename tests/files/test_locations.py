"""Files at locations: plain paths, `file:` URIs and the file systems of fsspec."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.errors import ResultsUnavailable
from headrace.files import locations
from headrace.files.places import join, local_path


@pytest.fixture(params=["path", "file", "local", "memory"])
def location(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return {
        "path": str(tmp_path / "with space"),
        "file": (tmp_path / "with space").as_uri(),
        "local": f"local://{tmp_path}/through-fsspec",
        "memory": f"memory://{tmp_path.name}",
    }[request.param]


def _create(location: str) -> None:
    locations.create_directory(location)
    if location.startswith("local:"):
        Path(location.removeprefix("local://")).mkdir()


def test_a_file_can_be_read_until_it_is_deleted(location: str) -> None:
    _create(location)
    file = join(location, "a.txt")
    locations.write(file, b"content")
    assert locations.read(file) == b"content"
    with locations.open_input_file(file) as stream:
        stream.seek(3)
        assert stream.read() == b"tent"
    locations.delete(location)
    with pytest.raises(FileNotFoundError):
        locations.read(file)
    locations.delete(location)


def test_only_the_named_files_are_kept(location: str) -> None:
    _create(location)
    for name in ("a", "b", "c"):
        locations.write(join(location, name), b"content")
    locations.delete_files_except(location, {"b"})
    assert locations.list_names(location) == ["b"]


def test_a_missing_directory_has_no_names(location: str) -> None:
    assert locations.list_names(join(location, "missing")) == []


def test_only_uris_of_this_host_are_local_paths() -> None:
    assert local_path("results/a") == Path("results/a")
    assert local_path("file:///a%20b/c") == Path("/a%20b/c")
    assert local_path("file:/a/b") == Path("/a/b")
    assert local_path("s3://bucket/a") is None
    assert join("s3://bucket/a/", "b") == "s3://bucket/a/b"


def test_an_unknown_file_system_is_named_in_the_error() -> None:
    for action in (locations.read, locations.delete):
        with pytest.raises(ResultsUnavailable, match="nowhere"):
            action("nowhere://bucket/a")


def test_an_error_contains_the_reason_of_the_file_system(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    with pytest.raises(ResultsUnavailable, match=r"^Cannot delete .*Not a directory"):
        locations.delete(str(file / "below"))
