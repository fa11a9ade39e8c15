"""Lookup of queries by name, also where names contain dots."""

from __future__ import annotations

from urllib.parse import quote

import pytest
from tests.support.identities import LOCAL_OWNER
from tests.support.in_process_node import InProcessNode

from headrace.model.ids import new_id
from headrace.model.stream_query import ADHOC_SCOPE, NewStreamQuery, QuerySpec
from headrace.store.streams import stream_queries, stream_transitions


def insert(node: InProcessNode, session: str, scope: str, name: str) -> str:
    query = NewStreamQuery(
        id=new_id("sq"),
        owner=LOCAL_OWNER,
        scope=scope,
        name=name,
        spec=QuerySpec(text="SAVE STREAM s TO noop", sink="noop"),
        checkpoint_place=None,
        session_id=session,
        statement_id=None,
    )
    with node.database.write("test") as tx:
        stream_queries.insert_query(tx, query, actor=LOCAL_OWNER)
    return query.id


def test_jobs_and_queries_can_have_dots_in_their_names(node: InProcessNode) -> None:
    session, _driver = node.start_session(kind="streaming")
    queries = {
        name: insert(node, session, *name.split("/"))
        for name in ("shop.eu.v1/orders", "shop/us.orders", "shop/orders")
    }

    for name, query_id in queries.items():
        shown = node.http.get(f"/api/v1/streams/{name.replace('/', '.')}")
        assert shown.json()["id"] == query_id
    missing = node.http.get("/api/v1/streams/shop.eu.orders")
    assert missing.status_code == 404


@pytest.mark.parametrize(
    "name", ["a/b", "a/b/stop", "/", "tag: 100%", "a?b#c", "ü ß", "%2F", "a.b"]
)
def test_each_name_of_a_query_can_be_addressed_when_it_is_escaped(
    node: InProcessNode, name: str
) -> None:
    session, _driver = node.start_session(kind="streaming")
    query_id = insert(node, session, ADHOC_SCOPE, name)

    path = f"/api/v1/streams/{quote(name, safe='')}"
    assert node.http.get(path).json()["id"] == query_id
    stopped = node.http.post(f"{path}/stop")
    assert (stopped.status_code, stopped.json()["id"]) == (202, query_id)


def test_a_live_query_wins_over_an_ended_one_of_the_same_dotted_name(node: InProcessNode) -> None:
    session, _driver = node.start_session(kind="streaming")
    ended = insert(node, session, ADHOC_SCOPE, "market.fish")
    with node.database.write("test") as tx:
        stream_transitions.end_all(tx, session, actor="test")
    live = insert(node, session, "market", "fish")

    assert node.http.get("/api/v1/streams/market.fish").json()["id"] == live
    assert node.http.get(f"/api/v1/streams/{ended}").json()["id"] == ended
