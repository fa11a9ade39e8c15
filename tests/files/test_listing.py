"""Lists of the files below a location: bounded, without links, and with what Spark calls them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from s3fs import S3FileSystem
from tests.support.aws import account, moto_server

from headrace.errors import ResultsUnavailable
from headrace.files import listing
from headrace.files.listing import TooManyFiles, list_files, to_file_uri


@pytest.fixture(scope="module")
def bucket() -> Iterator[str]:
    """Return the name of an empty bucket."""
    with moto_server() as endpoint:
        yield urlsplit(account(endpoint).results).netloc


def _list(location: str, limit: int = 10_000) -> dict[str, int]:
    return {each.path: each.size for each in list_files(location, limit=limit, seconds=60)}


def test_local_files_of_all_depths_are_listed_and_links_are_not_followed(tmp_path: Path) -> None:
    for name in ("a.json", "day=1/b.json", "_temporary/c.json", ".d/e.json", "_SUCCESS"):
        file = tmp_path / "in" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("row")
    other = tmp_path / "other"
    other.mkdir()
    (other / "f.json").write_text("row")
    (tmp_path / "in" / "link").symlink_to(other)
    (tmp_path / "in" / "loop").symlink_to(tmp_path / "in")
    assert _list(f"file:{tmp_path}/in") == {"a.json": 3, "day=1/b.json": 3, "_SUCCESS": 3}
    with pytest.raises(FileNotFoundError):
        _list(f"{tmp_path}/none")
    with pytest.raises(TooManyFiles):
        _list(f"{tmp_path}/in", limit=4)


def test_a_file_keeps_its_id_when_it_is_renamed(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("row")
    [before] = list_files(str(tmp_path), limit=10, seconds=60)
    (tmp_path / "a").rename(tmp_path / "b")
    [after] = list_files(str(tmp_path), limit=10, seconds=60)
    assert before.file_id is not None
    assert after == before._replace(path="b")


def test_a_directory_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("row")
    with pytest.raises(ResultsUnavailable, match=r"Cannot list .*/a: .*Not a directory"):
        _list(f"{tmp_path}/a")
    with pytest.raises(ResultsUnavailable, match="longer than 0 s"):
        list_files(str(tmp_path), limit=10, seconds=0)


def test_objects_in_s3_are_listed_page_by_page(
    bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    system = S3FileSystem()
    names = ["a b.json", "day=1/b.json", "_temporary/c.json", "_SUCCESS"]
    for name in names:
        system.pipe_file(f"{bucket}/in/{name}", b"row")
    system.pipe_file(f"{bucket}/in/folder/", b"")
    system.pipe_file(f"{bucket}/inside/d.json", b"row")
    pages = []
    original = S3FileSystem.call_s3

    def list_two(self: S3FileSystem, method: str, **given: str) -> object:
        pages.append(given)
        return original(self, method, MaxKeys=2, **given)

    monkeypatch.setattr(S3FileSystem, "call_s3", list_two)
    expected = {"a b.json": 3, "day=1/b.json": 3, "_SUCCESS": 3}
    assert _list(f"S3A://{bucket}/in/") == expected
    assert len(pages) == 3
    pages.clear()
    with pytest.raises(TooManyFiles):
        _list(f"s3://{bucket}", limit=3)
    assert len(pages) == 2
    assert _list(f"s3://{bucket}/none") == {}
    with pytest.raises(FileNotFoundError):
        _list("s3://no-such-bucket/in")


def test_an_object_that_is_written_again_has_another_revision(bucket: str) -> None:
    system = S3FileSystem()
    revisions = []
    for content in (b"one", b"two", b"two"):
        system.pipe_file(f"{bucket}/again/a", content)
        [file] = list_files(f"s3://{bucket}/again", limit=10, seconds=60)
        revisions.append((file.size, file.revision, file.file_id))
    assert revisions[0] != revisions[1] == revisions[2]
    assert revisions[0][2] is None


@pytest.mark.parametrize(
    ("location", "path", "uri"),
    [
        ("/in", "a.json", "file:/in/a.json"),
        ("file:///in/", "day=1/a b.json", "file:/in/day=1/a%20b.json"),
        ("/in", "50%.json", "file:/in/50%25.json"),
        ("/in", "a+b,c;d@e&f$g!h'(i)*~.json", "file:/in/a+b,c;d@e&f$g!h'(i)*~.json"),
        ("/in", '#?[]^`{|}\\"<>', "file:/in/%23%3F%5B%5D%5E%60%7B%7C%7D%5C%22%3C%3E"),
        ("/in", "é€\u00a0\n", "file:/in/é€%C2%A0%0A"),
        ("S3A://Lake/in", "a.json", "s3a://Lake/in/a.json"),
        ("s3://lake", "a.json", "s3://lake/a.json"),
    ],
    ids=["plain", "space", "percent", "punctuation", "quoted", "languages", "s3a", "bucket"],
)
def test_a_uri_is_that_of_spark(location: str, path: str, uri: str) -> None:
    assert to_file_uri(location, path) == uri


def test_a_directory_that_vanishes_during_the_list_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "gone").mkdir()
    (tmp_path / "a").write_text("row")
    original = os.scandir

    def scan(path: str) -> Iterator[os.DirEntry[str]]:
        if path == str(tmp_path / "gone"):
            raise FileNotFoundError(path)
        return original(path)

    monkeypatch.setattr(listing.os, "scandir", scan)
    assert _list(str(tmp_path)) == {"a": 3}
