"""Actions of users on the queries of a job that a deployment changes."""

from __future__ import annotations

import pytest
from sqlalchemy import update
from tests.support.identities import LOCAL_OWNER
from tests.support.in_process_node import InProcessNode

from headrace.model.ids import new_id
from headrace.model.stream_query import NewStreamQuery, QuerySpec
from headrace.store.jobs import jobs
from headrace.store.streams import stream_queries
from headrace.store.tables import jobs as jobs_table


@pytest.mark.parametrize("action", ["restart", "pause", "stop"])
def test_a_query_of_a_job_that_is_being_changed_cannot_be_changed(
    node: InProcessNode, action: str
) -> None:
    name = f"job-{action}"
    session, _driver = node.start_session(kind="streaming")
    with node.database.write("test") as tx:
        job = jobs.insert_job(
            tx, LOCAL_OWNER, name, "/state", state_place="file:/state", actor=LOCAL_OWNER
        )
        query = NewStreamQuery(
            id=new_id("sq"),
            owner=LOCAL_OWNER,
            scope=name,
            name="q",
            spec=QuerySpec(text="SAVE STREAM s TO noop", sink="noop"),
            checkpoint_place=None,
            session_id=session,
            statement_id=None,
        )
        stream_queries.insert_query(tx, query, actor=LOCAL_OWNER)
        change = update(jobs_table).where(jobs_table.c.id == job.id)
        tx.execute(change.values(change_id=new_id("ch")))
    refused = node.http.post(f"/api/v1/streams/{query.id}/{action}")
    with node.database.write("test") as tx:
        tx.execute(change.values(change_id=None))
    accepted = node.http.post(f"/api/v1/streams/{query.id}/{action}")

    assert (refused.status_code, refused.json()["code"]) == (409, "stream_state_conflict")
    assert f"the job {name}" in refused.json()["detail"]
    assert accepted.status_code == 202
