"""What every protocol must do with a statement, whoever submits it and whichever node answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.support.front_ends import (
    CLIENTS,
    HELD,
    ROWS,
    WRONG,
    FrontEndClient,
    FrontEndNode,
    Refused,
    serve_front_ends,
)
from tests.support.waiting import wait_until

from headrace.model.lifecycle import StatementState

Connect = Callable[..., FrontEndClient]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FrontEndNode]:
    home = tmp_path_factory.mktemp("front-ends") / "home"
    statements = {"max_waiting": 4}
    with serve_front_ends(home, users=["ada", "bob", "eve"], statements=statements) as server:
        yield server


@pytest.fixture(params=CLIENTS)
def connect(server: FrontEndNode, request: pytest.FixtureRequest) -> Iterator[Connect]:
    """Yield a function that signs a user in at a node, by each protocol."""
    clients: list[FrontEndClient] = []
    server.released.clear()

    def connect_as(who: str = "ada", node: FrontEndNode = server) -> FrontEndClient:
        clients.append(CLIENTS[request.param](node, server.tokens.get(who, who)))
        clients[-1].sign_in()
        return clients[-1]

    yield connect_as
    server.released.set()
    for client in clients:
        client.vanish()


def wait_for(client: FrontEndClient, handle: object, state: str) -> None:
    wait_until(lambda: client.state(handle) == state, what=f"the statement is {state}")


def test_a_result_is_paged_and_any_client_of_its_owner_reads_it(
    server: FrontEndNode, connect: Connect
) -> None:
    client = connect()
    handle = client.submit(ROWS)
    wait_for(client, handle, "success")
    assert server.state_of(client.id_of(handle)) is StatementState.SUCCESS
    assert client.rows(handle, page=7) == list(range(30))


def test_a_statement_survives_its_client(server: FrontEndNode, connect: Connect) -> None:
    client = connect()
    handle = client.submit(HELD)
    statement_id = client.id_of(handle)
    if isinstance(handle, tuple):
        pytest.skip("GetFlightInfo cannot tell a lost client from one that cancels: see the guide")
    assert client.state(handle) == "active"
    client.vanish()
    server.released.set()
    wait_until(lambda: server.state_of(statement_id) is StatementState.SUCCESS)
    again = connect()
    assert again.state(handle) == "success"
    assert again.rows(handle) == [1]


def test_the_end_of_a_session_keeps_what_its_statements_returned(
    server: FrontEndNode, connect: Connect
) -> None:
    client = connect()
    handle = client.submit(ROWS)
    wait_for(client, handle, "success")
    statement_id = client.id_of(handle)
    client.close()
    assert server.state_of(statement_id) is StatementState.SUCCESS
    assert connect().rows(handle) == list(range(30))


def test_an_error_has_the_condition_the_message_and_the_position(connect: Connect) -> None:
    client = connect()
    handle = client.submit(WRONG)
    wait_for(client, handle, "failed")
    text = client.error(handle)
    assert "TABLE_OR_VIEW_NOT_FOUND" in text
    assert "The table `t` cannot be found." in text
    assert "line 1, column 18" in text or '"line": 1, "column": 18' in text


def test_another_client_of_the_owner_cancels(server: FrontEndNode, connect: Connect) -> None:
    client = connect()
    handle = client.submit(HELD)
    wait_until(lambda: server.state_of(client.id_of(handle)) is StatementState.RUNNING)
    connect().cancel(handle)
    wait_for(client, handle, "cancelled")
    assert server.state_of(client.id_of(handle)) is StatementState.CANCELLED


def test_a_log_is_read_while_a_statement_runs_and_after_its_end(
    server: FrontEndNode, connect: Connect
) -> None:
    client = connect()
    if not client.has_log:
        pytest.skip("the protocol has no call for a log")
    handle = client.submit(HELD)
    statement_id = client.id_of(handle)
    wait_until(lambda: server.state_of(statement_id) is StatementState.RUNNING)
    # The protocols with sessions show the log of the driver, HiveServer2 one of the statement.
    server.write_driver_log(statement_id, ["a line of the driver", "another", "a third"])
    running = client.log(handle)
    assert any(statement_id in line or line == "a line of the driver" for line in running)
    server.released.set()
    wait_for(client, handle, "success")
    assert set(running) <= set(connect().log(handle))
    other = connect("bob")
    with pytest.raises(Refused, match=r"not_found|does not exist|NotFound"):
        other.log(handle)


def test_a_statement_of_another_owner_does_not_exist(
    server: FrontEndNode, connect: Connect
) -> None:
    client = connect("ada")
    handle = client.submit(ROWS)
    wait_for(client, handle, "success")
    other = connect("bob")
    for call in (other.rows, other.cancel):
        with pytest.raises(Refused, match=r"not_found|does not exist|NotFound"):
            call(handle)
    assert client.rows(handle) == list(range(30))


def test_a_wrong_token_is_refused_before_anything_else(
    server: FrontEndNode, connect: Connect
) -> None:
    with (
        server.node.expect_no_changes(),
        pytest.raises(Refused, match=r"(?i)unauthorized|401|not valid"),
    ):
        connect("not-a-token").submit(ROWS)


def test_a_text_that_is_too_large_is_refused_with_the_limit(connect: Connect) -> None:
    client = connect()
    text = "SELECT '" + "x" * (11 * 1024 * 1024) + "'"
    with pytest.raises(Refused, match="larger than"):
        client.submit(text)
    handle = client.submit(ROWS)
    wait_for(client, handle, "success")
    assert client.rows(handle) == list(range(30))


def test_a_full_queue_is_a_refusal_with_its_limit(server: FrontEndNode, connect: Connect) -> None:
    client = connect("eve")
    handles = [client.submit(HELD)]
    with pytest.raises(Refused, match=r"max_waiting"):
        handles += [client.submit(f"{HELD} -- {number}") for number in range(10)]
    server.released.set()
    for handle in handles:
        wait_for(client, handle, "success")


@pytest.mark.postgres
@pytest.mark.parametrize("protocol", CLIENTS)
def test_another_node_continues_after_the_end_of_the_first(
    protocol: str, postgres_url: str, tmp_path: Path
) -> None:
    changes = {"store": {"url": postgres_url}, "results": {"location": str(tmp_path / "results")}}
    with serve_front_ends(tmp_path / "one", users=["ada"], **changes) as one:
        first = CLIENTS[protocol](one, one.tokens["ada"])
        first.sign_in()
        handle = first.submit(ROWS)
        wait_for(first, handle, "success")
        token = one.tokens["ada"]
        first.vanish()
    with serve_front_ends(tmp_path / "two", **changes) as two:
        second = CLIENTS[protocol](two, token)
        second.sign_in()
        assert second.rows(handle, page=7) == list(range(30))
        assert second.state(handle) == "success"
        second.vanish()
