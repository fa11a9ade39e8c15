"""Lookup of queries by name, also where names contain dots."""

from __future__ import annotations

from tests.support.in_process_node import InProcessNode

from headrace.model.ids import new_id
from headrace.model.stream_query import NewStreamQuery, QuerySpec
from headrace.store import stream_queries


def insert(node: InProcessNode, session: str, scope: str, name: str) -> str:
    query = NewStreamQuery(
        id=new_id("sq"),
        owner="anonymous",
        scope=scope,
        name=name,
        spec=QuerySpec(text="SAVE STREAM s TO noop", sink="noop"),
        checkpoint_place=None,
        session_id=session,
        statement_id=None,
    )
    with node.database.write("test") as tx:
        stream_queries.insert_query(tx, query, actor="anonymous")
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
