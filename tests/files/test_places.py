"""Places: all locations of one place have one identity, and two places never share one."""

from __future__ import annotations

import os
import posixpath
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event, Semaphore, Timer

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from tests.support.waiting import wait_until

from headrace.errors import InvalidLocation
from headrace.files.places import (
    identify,
    is_below,
    is_same,
    local_path,
    mask_password,
    to_hadoop_form,
)

NAMES = st.text(alphabet="aZ0%2 .:?#é~+@-_", min_size=1, max_size=5).filter(
    lambda name: name not in {".", ".."} and ":" not in name[:3]
)
PATHS = st.lists(NAMES, min_size=1, max_size=4)
SLASHES = st.sampled_from(["/", "//", "/./", "/./././", "///"])
ENDS = st.sampled_from(["", "/", "//", "/.", "/./", "/x/..", "/x/../"])
NOWHERE = "/headrace-no-such-directory"
"""Start of local paths, in which no link can be."""
LOCAL = ["", "file:", "FILE:", "File://", "file://", "file://localhost", "file:///"]
REMOTE = [
    (["s3a://", "s3://", "S3N://", "s3n://"], ["bucket", "BUCKET", "Bucket"]),
    (["hdfs://", "HDFS://"], ["nn.example", "NN.Example", "nn.example:8020"]),
    (["hdfs://", "Hdfs://"], ["nn.example:9000", "NN.EXAMPLE:9000"]),
    (["hdfs://", "hdfs:", "HDFS:", "Hdfs://"], [""]),
    (["viewfs://", "VIEWFS://"], ["cluster"]),
    (["viewfs:", "viewfs://"], [""]),
    (["dbfs:", "DBFS:", "dbfs://"], [""]),
    (["abfss://", "ABFS://"], ["data@account.dfs.core.windows.net"]),
    (["gs://", "GS://"], ["bucket"]),
]
"""For each place of another file system: spellings of its scheme, and of its authority."""


@st.composite
def spelled_paths(draw: st.DrawFn, names: list[str]) -> str:
    parts = [f"{draw(SLASHES)}{name}" for name in names[1:]]
    # Two slashes at the start of a URI begin its authority.
    return f"/{draw(st.sampled_from(['', './']))}{names[0]}{''.join(parts)}{draw(ENDS)}"


@given(data=st.data(), names=PATHS)
def test_all_spellings_of_a_local_path_are_one_place(data: st.DataObject, names: list[str]) -> None:
    spellings = [
        data.draw(st.sampled_from(LOCAL)) + data.draw(spelled_paths([NOWHERE[1:], *names]))
        for _ in range(3)
    ]

    assert len({identify(spelling) for spelling in spellings}) == 1
    assert {identify(to_hadoop_form(spelling)) for spelling in spellings} == {
        identify(spellings[0])
    }
    assert {str(local_path(to_hadoop_form(spelling))) for spelling in spellings} == {
        "/".join([NOWHERE, *names])
    }


@given(data=st.data(), names=st.one_of(PATHS, st.just([])))
def test_all_spellings_of_a_remote_location_are_one_place(
    data: st.DataObject, names: list[str]
) -> None:
    schemes, authorities = data.draw(st.sampled_from(REMOTE))
    assume(names or authorities != [""])
    spellings = [
        data.draw(st.sampled_from(schemes))
        + data.draw(st.sampled_from(authorities))
        + (data.draw(spelled_paths(names)) if names else data.draw(st.sampled_from(["", "/"])))
        for _ in range(3)
    ]

    assert len({identify(spelling) for spelling in spellings}) == 1
    for spelling in spellings:
        form = to_hadoop_form(spelling)
        assert to_hadoop_form(form) == form
        assert identify(form) == identify(spelling)


@st.composite
def places(draw: st.DrawFn) -> tuple[tuple[str, str, str], str]:
    """Draw what makes a place what it is, and one spelling of it."""
    names = draw(PATHS)
    path = posixpath.normpath("/" + "/".join(names))
    if draw(st.booleans()):
        local = draw(spelled_paths([NOWHERE[1:], *names]))
        return ("file", "", NOWHERE + path), draw(st.sampled_from(LOCAL)) + local
    scheme = draw(st.sampled_from(["s3a", "hdfs", "viewfs", "gs", "o3fs"]))
    authority = draw(st.sampled_from(["", "a", "b", "a:1", "a:8020", "a:80"]))
    known = "a" if scheme == "hdfs" and authority == "a:8020" else authority
    return (scheme, known, path), f"{scheme}://{authority}{draw(spelled_paths(names))}"


@given(first=places(), second=places())
def test_two_places_stay_two(
    first: tuple[tuple[str, str, str], str], second: tuple[tuple[str, str, str], str]
) -> None:
    assert is_same(first[1], second[1]) == (first[0] == second[0])


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("/nowhere/A", "/nowhere/a"),
        ("/nowhere/a%20b", "/nowhere/a b"),
        ("/nowhere/a?x", "/nowhere/a"),
        ("/nowhere/a#x", "/nowhere/a"),
        ("s3a://bucket/A", "s3a://bucket/a"),
        ("hdfs://a/x", "hdfs://b/x"),
        ("hdfs://a:8020/x", "hdfs://a:9000/x"),
        ("hdfs:///user/etl/ck", "hdfs://user/etl/ck"),
        ("viewfs://A/x", "viewfs://a/x"),
        ("memory://A/x", "memory://a/x"),
        ("abfss://one@account/x", "abfss://two@account/x"),
        ("file://other/x", "/x"),
        ("/" + "x/" * 600 + "a", "/" + "x/" * 600 + "b"),
    ],
)
def test_places_that_look_alike_are_different(first: str, second: str) -> None:
    assert not is_same(first, second)


@pytest.mark.parametrize(
    ("written", "form"),
    [
        ("hdfs:///user/etl/ck", "hdfs:///user/etl/ck"),
        ("hdfs:/user/etl/ck", "hdfs:///user/etl/ck"),
        ("viewfs:///a/../b", "viewfs:///b"),
        ("dbfs:/a", "dbfs:///a"),
        ("file://localhost/tmp/x", "file:/tmp/x"),
        ("FILE:///tmp//x/", "file:/tmp/x"),
        ("/tmp/x/../y", "/tmp/y"),
        ("/../tmp", "/tmp"),
        ("//tmp/x", "/tmp/x"),
        ("ck/./x", "/base/ck/x"),
        ("../ck", "/ck"),
        ("S3://Bucket/A/", "s3://Bucket/A"),
        ("/a%20b?c#d", "/a%20b?c#d"),
    ],
)
def test_spark_gets_a_location_in_which_only_the_spelling_differs(written: str, form: str) -> None:
    assert to_hadoop_form(written, base="/base") == form


@pytest.mark.parametrize("written", ["", "file:x", "s3a:bucket", "s3:", "a:b", "/a\0b", "/\ud800"])
def test_a_location_that_hadoop_cannot_read_is_refused(written: str) -> None:
    with pytest.raises(InvalidLocation):
        to_hadoop_form(written, base="/base")


def test_links_are_resolved_and_what_does_not_exist_yet_is_no_obstacle(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    (tmp_path / "loop").symlink_to("loop")
    real = f"{tmp_path}/real/new/ck"

    assert is_same(f"file://{tmp_path}/link/new/ck", real)
    assert is_same("link/new/ck", "link/new/ck")
    assert identify("link/new/ck", base=str(tmp_path)) == identify(real)
    # Hadoop removes dot segments before the system sees the link.
    assert is_same(f"{tmp_path}/link/../real/new/ck", real)
    assert not is_same(f"{tmp_path}/loop/ck", real)
    assert is_below(f"{tmp_path}/link/new", f"{tmp_path}/real/")
    assert not is_below(f"{tmp_path}/real-other", f"{tmp_path}/real")


def test_a_path_that_cannot_be_resolved_in_time_keeps_its_spelling(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mount whose server is gone must not stop the caller, who may hold a transaction."""
    hangs = Event()
    monkeypatch.setattr("headrace.files.places._RESOLVE_SECONDS", 0.01)
    monkeypatch.setattr(os.path, "realpath", lambda path: hangs.wait(30) and path)
    try:
        assert identify(f"{tmp_path}/x/../ck") == f"file:{tmp_path}/ck"
    finally:
        hangs.set()


def test_a_link_is_resolved_although_many_others_are_at_the_same_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "link").symlink_to("real")
    resolve, begun, may_resolve = os.path.realpath, Semaphore(0), Event()

    def resolve_later(path: str) -> str:
        begun.release()
        assert may_resolve.wait(60)
        return resolve(path)

    monkeypatch.setattr(os.path, "realpath", resolve_later)
    with ThreadPoolExecutor(9) as pool:
        others = [pool.submit(identify, f"{tmp_path}/link/ck") for _ in range(8)]
        for _ in others:
            assert begun.acquire(timeout=60)
        # All threads of the module are in the file system.
        Timer(0.2, may_resolve.set).start()
        assert identify(f"{tmp_path}/link/ck") == f"file:{tmp_path}/real/ck"
        assert {other.result() for other in others} == {f"file:{tmp_path}/real/ck"}


def test_file_systems_that_do_not_answer_hold_a_few_threads_and_stop_no_further_caller(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hangs = Event()
    monkeypatch.setattr("headrace.files.places._RESOLVE_SECONDS", 0.05)
    monkeypatch.setattr(os.path, "realpath", lambda path: hangs.wait(60) and path)

    def count_threads() -> int:
        return sum(each.name == "headrace-resolve-links" for each in threading.enumerate())

    try:
        for _ in range(8):
            identify(f"{tmp_path}/ck")
        assert count_threads() == 8
        # The threads hang: nothing waits for them any more.
        monkeypatch.setattr("headrace.files.places._RESOLVE_SECONDS", 0.0)
        assert identify(f"{tmp_path}/x/../ck") == f"file:{tmp_path}/ck"
        assert count_threads() == 8
    finally:
        hangs.set()
        wait_until(lambda: count_threads() == 0, what="the threads have ended")


def test_a_default_file_system_makes_a_path_remote() -> None:
    default = "hdfs://NN:8020"

    assert identify("/ck", default_fs=default) == identify("hdfs://nn/ck")
    assert identify("hdfs:///ck", default_fs=default) == identify("hdfs://nn/ck")
    assert identify("file:/ck", default_fs=default) == identify("/ck")
    assert identify("hdfs://other/ck", default_fs=default) == identify("hdfs://other/ck")


@pytest.mark.parametrize(
    "location",
    [
        "s3a://key:hunter2@bucket/x",
        "S3A://key:hun/ter2+x@bucket/x",
        "ftp://user:hunter2@host:21/x",
        "file://user:hunter2@host/x",
    ],
)
def test_a_location_with_a_password_is_refused_and_not_shown(location: str) -> None:
    with pytest.raises(InvalidLocation) as caught:
        to_hadoop_form(location)

    shown = f"{caught.value.message} {caught.value.hint} {identify(location)}"
    assert "hun" not in shown
    assert "ter2" not in mask_password(location)


@pytest.mark.parametrize(
    "location",
    ["abfss://data@account/x", "hdfs://nn:8020/a@b", "hdfs://nn:8020/a:b@c", "/a:b@c", "s3a://b/@"],
)
def test_a_location_without_a_password_is_shown_as_it_is(location: str) -> None:
    assert mask_password(location) == location
    assert to_hadoop_form(location) == location
