"""What a node does not believe of a driver that writes a materialized view."""

from __future__ import annotations

from tests.support.in_process_node import InProcessNode, StartNode
from tests.support.views import ViewWriter, begin_generation, new_view

from headrace.model.lifecycle import StreamState
from headrace.model.materialized_view import SwitchedView
from headrace.model.messages import NewView
from headrace.model.stream_query import QueryReport


def test_an_attempt_resolves_the_name_of_its_view_once(start_node: StartNode) -> None:
    node = start_node(lease={"sweep": "50ms"})
    writer = ViewWriter(node, properties="WITH (auto_refresh = true)")
    statement = writer.submit_create()
    first = begin_generation(writer.driver, statement, new_view(writer.name))
    again = begin_generation(writer.driver, statement, in_other_catalog(writer.name))
    node.launcher.report_exit(writer.session, "killed by SIGKILL")
    with node.launcher.connect_driver(writer.session, launch=2) as second:
        second.hello()
        second.claim()
        resolved = begin_generation(second, statement, in_other_catalog(writer.name))

    assert first.view is not None
    assert again.failure is not None
    assert "resolved the name of the view twice" in again.failure.message
    assert resolved.failure is None
    assert resolved.view not in {None, first.view}


def test_the_next_driver_learns_from_the_node_which_view_a_table_belongs_to(
    start_node: StartNode,
) -> None:
    node = start_node(lease={"sweep": "50ms"})
    writer = ViewWriter(node)
    statement = writer.submit_create()
    generation = begin_generation(writer.driver, statement, new_view(writer.name))
    writer.prepare(writer.driver, statement, generation.number)
    node.launcher.report_exit(writer.session, "killed by SIGKILL")
    with node.launcher.connect_driver(writer.session, launch=2) as second:
        second.hello()
        transaction = second.claim().transaction

    assert transaction is not None
    path = ["spark_catalog", "default", writer.name]
    assert transaction.view == SwitchedView(id=str(generation.view), path=path)


def test_a_view_without_a_checkpoint_can_have_the_name_of_an_ended_query(
    node: InProcessNode,
) -> None:
    view = ViewWriter(node, properties="WITH (auto_refresh = true)")
    text = f"SAVE STREAM t TO noop IDENTIFIED BY {view.name}"
    ended = node.submit(text, session=view.session)["id"]
    query = view.driver.claim().query
    assert query is not None
    view.driver.succeed(ended)
    for generation, state in ((1, StreamState.RUNNING), (2, StreamState.STOPPED)):
        if state is StreamState.STOPPED:
            node.act_on_stream(view.name, "stop")
        report = QueryReport(id=query.id, generation=generation, state=state, last_batch=3)
        view.driver.renew(queries=[report])
    created = node.submit(view.create, session=view.session)

    assert created["state"] == "waiting"


def in_other_catalog(name: str) -> NewView:
    """Return the view that a driver resolves in another catalog."""
    return new_view(name).model_copy(update={"identity": "other"})
