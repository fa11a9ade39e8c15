"""Markers of checkpoints: only the store says whether the marked query is live."""

from __future__ import annotations

import httpx
import pytest
from tests.support.identities import LOCAL_OWNER
from tests.support.in_process_node import InProcessNode

from headrace.model.ids import new_id
from headrace.model.messages import MarkedQuery
from headrace.model.stream_query import NewStreamQuery, QuerySpec
from headrace.store.streams import stream_queries


def insert_query(node: InProcessNode, session_id: str, name: str, owner: str = LOCAL_OWNER) -> str:
    new = NewStreamQuery(
        id=new_id("sq"),
        owner=owner,
        scope="adhoc",
        name=name,
        spec=QuerySpec(text="SAVE STREAM t TO noop", sink="noop", checkpoint=f"/{name}"),
        checkpoint_place=f"file:/{name}",
        session_id=session_id,
        statement_id=None,
    )
    with node.database.write("test") as tx:
        stream_queries.insert_query(tx, new, actor=owner)
    return new.id


def test_a_driver_learns_whether_a_marked_query_is_live(node: InProcessNode) -> None:
    session_id, driver = node.start_session(kind="streaming")
    other_session, _other_driver = node.start_session(kind="streaming")
    own = insert_query(node, session_id, "marks_own")
    live = insert_query(node, other_session, "marks_live")
    foreign = insert_query(node, other_session, "marks_foreign", owner="bob")
    ended = insert_query(node, session_id, "marks_ended")
    with node.database.write("test") as tx:
        tx.connection.exec_driver_sql(
            "UPDATE stream_queries SET state = 'stopped', ended_at = created_at"
            f" WHERE id = '{ended}'"
        )

    assert driver.find_marked(own, live) == MarkedQuery(is_live=True, name="adhoc.marks_live")
    assert driver.find_marked(own, foreign) == MarkedQuery(is_live=True, name=None)
    for gone in (ended, new_id("sq")):
        assert driver.find_marked(own, gone) == MarkedQuery(is_live=False)


@pytest.mark.parametrize("query", ["foreign", "unknown"])
def test_a_driver_asks_only_for_a_query_of_its_session(node: InProcessNode, query: str) -> None:
    _session_id, driver = node.start_session(kind="streaming")
    other_session, _other_driver = node.start_session(kind="streaming")
    marked = insert_query(node, other_session, f"probed_{query}")
    with pytest.raises(httpx.HTTPStatusError) as caught:
        driver.find_marked(marked if query == "foreign" else new_id("sq"), marked)

    assert caught.value.response.status_code == 400
    assert "probed" not in caught.value.response.text
