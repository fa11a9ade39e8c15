"""What a node hands to drivers of the named streams and the temporary views of an owner."""

from __future__ import annotations

import pytest
from sqlalchemy import insert
from tests.support.identities import LOCAL_OWNER
from tests.support.in_process_node import InProcessNode, StartNode
from tests.support.scripted_driver import ScriptedDriver

from headrace.model.ids import new_id
from headrace.model.messages import FindStreams, FoundStreams
from headrace.model.session import EntryForm, SessionView, Snapshot, SnapshotEntry
from headrace.model.stream_query import DefinitionKind
from headrace.store.clock import clock
from headrace.store.tables import definitions

COUNT = 10_000


@pytest.fixture
def own_node(start_node: StartNode) -> InProcessNode:
    return start_node()


def define_all(node: InProcessNode, texts: dict[str, str], owner: str = LOCAL_OWNER) -> None:
    """Define streams."""
    rows = [
        {
            "id": new_id("de"),
            "owner": owner,
            "scope": "adhoc",
            "kind": DefinitionKind.STREAM,
            "name": name,
            "name_key": name,
            "text": text,
        }
        for name, text in texts.items()
    ]
    with node.database.write("test.define") as tx:
        tx.execute(insert(definitions).values(created_at=clock()), rows)


def find(driver: ScriptedDriver, *names: str) -> FoundStreams:
    return driver._call("find_streams", FindStreams(names=list(names)), FoundStreams)


def test_a_statement_costs_the_same_with_ten_thousand_streams(own_node: InProcessNode) -> None:
    node = own_node
    define_all(node, {f"s{n}": f"CREATE STREAM s{n} FROM rate" for n in range(COUNT)})
    session, driver = node.start_session(kind="streaming")
    # A plain statement has nothing of them, whatever it mentions.
    plain = node.submit("SELECT * FROM s1", session=session)["id"]
    assert driver.claim().definitions == []
    driver.succeed(plain)
    assert find(driver, "S77", "no_stream").definitions == ["CREATE STREAM s77 FROM rate"]
    assert (
        node.http.post(
            "/api/v1/statements", json={"statement": "CREATE STREAM s5 FROM rate"}
        ).json()["code"]
        == "definition_exists"
    )
    node.submit("CREATE STREAM last AS SELECT value FROM s9999", session=session)
    created = driver.claim()
    assert created.definitions == ["CREATE STREAM s9999 FROM rate"]
    driver.succeed(created.statement_id)
    node.submit("SAVE STREAM last TO noop", session=session)
    query = driver.claim().query

    assert query is not None
    assert len(query.spec.definitions) == 2
    assert len(node.rows("SHOW STREAMS")) == COUNT + 1


def test_a_chain_of_too_many_streams_is_refused(own_node: InProcessNode) -> None:
    chain = {"c0": "CREATE STREAM c0 FROM rate"}
    chain |= {f"c{n}": f"CREATE STREAM c{n} AS SELECT * FROM c{n - 1}" for n in range(1, 200)}
    define_all(own_node, chain)
    _session, driver = own_node.start_session()
    found = find(driver, "c99")
    refused = find(driver, "c100")
    response = own_node.http.post(
        "/api/v1/statements", json={"statement": "SAVE STREAM c199 TO noop"}
    )

    assert found.definitions == list(chain.values())[:100]
    assert refused.failure is not None
    assert "reads too many streams" in refused.failure.message
    assert (response.status_code, response.json()["code"]) == (400, "invalid_statement")


def test_a_driver_finds_only_the_streams_of_its_owner(own_node: InProcessNode) -> None:
    define_all(own_node, {"theirs": "CREATE STREAM theirs FROM rate"}, owner="ada")
    _session, driver = own_node.start_session()

    assert find(driver, "theirs").definitions == []


def make_view(name: str, *reads: str) -> SnapshotEntry:
    view = SessionView(
        name=name,
        query=f"SELECT * FROM {', '.join(reads)}",
        catalog="spark_catalog",
        namespace=["default"],
        reads=list(reads),
    )
    return SnapshotEntry(name=name, form=EntryForm.JAVA, body="AA==", view=view)


@pytest.fixture(params=["interactive", "streaming"])
def session_with_views(
    own_node: InProcessNode, request: pytest.FixtureRequest
) -> tuple[InProcessNode, str]:
    """Return a node and a session with views over streams: top → middle → (foo, fifty)."""
    define_all(
        own_node,
        {
            "foo": "CREATE STREAM foo FROM rate",
            "fifty": "CREATE STREAM fifty AS SELECT * FROM base",
            "base": "CREATE STREAM base FROM rate",
            "unread": "CREATE STREAM unread FROM rate",
        },
    )
    session, driver = own_node.start_session(kind=request.param)
    views = [make_view("top", "middle"), make_view("middle", "foo", "fifty"), make_view("foo2")]
    snapshot = Snapshot(catalog="spark_catalog", namespace=["default"], views=views)
    statement = own_node.submit("SELECT 1", session=session)["id"]
    driver.claim()
    driver.succeed(statement, snapshot=snapshot)
    return own_node, session


def test_a_query_over_a_temporary_view_keeps_the_view_and_its_streams(
    session_with_views: tuple[InProcessNode, str],
) -> None:
    node, session = session_with_views
    statement = node.submit("SAVE STREAM Top TO noop", session=session)
    driver = node.launcher.connect_driver(statement["session_id"])
    if statement["session_id"] != session:
        driver.hello()
    query = driver.claim().query

    assert query is not None
    assert [view.name for view in query.spec.views] == ["middle", "top"]
    assert query.spec.definitions == [
        "CREATE STREAM foo FROM rate",
        "CREATE STREAM base FROM rate",
        "CREATE STREAM fifty AS SELECT * FROM base",
    ]


def test_a_query_over_a_stream_keeps_no_view(
    session_with_views: tuple[InProcessNode, str],
) -> None:
    node, session = session_with_views
    statement = node.submit("SAVE STREAM unread TO noop", session=session)
    driver = node.launcher.connect_driver(statement["session_id"])
    if statement["session_id"] != session:
        driver.hello()
    query = driver.claim().query

    assert query is not None
    assert query.spec.views == []
    assert query.spec.definitions == ["CREATE STREAM unread FROM rate"]
