"""Locations of streams: every spelling of a checkpoint is one place, and no password is stored."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.identities import LOCAL_OWNER
from tests.support.in_process_node import InProcessNode

SAVE = "SAVE STREAM t TO noop IDENTIFIED BY {} OPTIONS ('checkpointLocation' = '{}')"
SECRET = "hunter2"


@pytest.fixture
def session(node: InProcessNode) -> Iterator[str]:
    session_id, driver = node.start_session(kind="streaming")
    yield session_id
    node.http.delete(f"/api/v1/sessions/{session_id}")
    driver.goodbye()


def submit(node: InProcessNode, session: str, text: str) -> tuple[int, dict[str, str]]:
    response = node.http.post("/api/v1/statements", json={"statement": text, "session": session})
    return response.status_code, response.json()


@pytest.mark.parametrize(
    ("first", "spellings"),
    [
        (
            "/data/wal",
            ["/data//wal/", "file:///data/wal", "FILE:/data/wal", "file://localhost/data/./wal"],
        ),
        ("{folder}/x/../ck", ["{folder}/ck", "{folder}/link/ck", "file:{folder}/link/y/../ck/"]),
        ("relative/ck", ["./relative/ck/", "{cwd}/relative/ck", "other/../relative//ck"]),
        ("hdfs:///user/etl/ck", ["hdfs:/user/etl/ck", "HDFS:///user//etl/ck"]),
        ("s3a://bucket/ck", ["s3://bucket/ck", "S3N://Bucket/ck/"]),
    ],
    ids=["local", "link", "relative", "hdfs", "s3"],
)
def test_two_live_queries_on_one_checkpoint_conflict_however_it_is_spelled(
    node: InProcessNode, session: str, tmp_path: Path, first: str, spellings: list[str]
) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    folders = {"folder": tmp_path, "cwd": Path.cwd()}
    text = SAVE.format("one_place", first.format(**folders))
    assert submit(node, session, text)[0] == 201
    for spelling in spellings:
        text = SAVE.format("other_name", spelling.format(**folders))
        status, answer = submit(node, session, text)

        assert (status, answer["code"]) == (409, "checkpoint_in_use"), spelling
        assert "adhoc.one_place" in answer["detail"]
    assert submit(node, session, SAVE.format("other", "hdfs://user/etl/ck"))[0] == 201


@pytest.mark.parametrize(
    ("location", "kept"),
    [
        ("hdfs:///user/etl", "hdfs:///user/etl"),
        ("viewfs:///a//b", "viewfs:///a/b"),
        ("file://localhost/tmp/x/", "file:/tmp/x"),
        ("dbfs:/wal", "dbfs:///wal"),
    ],
)
def test_default_locations_stay_in_their_file_system(
    node: InProcessNode, session: str, location: str, kept: str
) -> None:
    conf = {"spark.sql.streaming.checkpointLocation": location}
    body = {"statement": "SAVE STREAM t TO json IDENTIFIED BY placed", "session": session}
    options = f" OPTIONS ('path' = '{location}')"
    response = node.http.post(
        "/api/v1/statements", json={**body, "statement": body["statement"] + options, "conf": conf}
    )
    stream = node.stream("placed")

    assert response.status_code == 201
    assert stream["checkpoint"] == f"{kept}/adhoc-{LOCAL_OWNER}/placed"
    assert stream["path"] == kept


@pytest.mark.parametrize(
    "text",
    [
        SAVE.format("q", f"s3a://key:{SECRET}@bucket/x"),
        f"SAVE STREAM t TO json OPTIONS ('path' = 's3a://key:{SECRET}@bucket/x')",
        f"SAVE STREAM t TO delta OPTIONS ('path' = 's3a://key:{SECRET}@bucket/x')",
        f"CREATE SINK hidden TO json OPTIONS ('path' = 'ftp://user:{SECRET}@host/x')",
        f"CREATE STREAM hidden FROM text OPTIONS ('path' = 'ftp://user:{SECRET}@host/x')",
    ],
)
def test_a_location_with_a_password_is_refused_and_kept_nowhere(
    node: InProcessNode, session: str, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    status, answer = submit(node, session, text)
    lists = ("statements", "streams", "events")
    shown = [node.http.get(f"/api/v1/{each}").text for each in lists]

    assert (status, answer["code"]) == (400, "invalid_location")
    assert "contains a password" in answer["detail"]
    assert SECRET not in "".join([*shown, str(answer), caplog.text])


@pytest.mark.parametrize("location", ["", "file:wal", "s3a:bucket"])
def test_a_checkpoint_that_spark_cannot_read_is_refused(
    node: InProcessNode, session: str, location: str
) -> None:
    status, answer = submit(node, session, SAVE.format("unreadable", location))

    assert (status, answer["code"]) == (400, "invalid_location")
