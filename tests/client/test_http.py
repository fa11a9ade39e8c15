from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from tests.cli.scripted_node import ScriptedNode

from headrace import errors
from headrace.client.errors import from_answer
from headrace.client.http import Client
from headrace.client.transport import Transport


@contextmanager
def client(address: str, token: str | None = None, patience: float = 5) -> Iterator[Client]:
    with Client(address, token, patience=patience) as made:
        yield made


@contextmanager
def answering(*answers: bytes) -> Iterator[str]:
    """A server that gives these bytes, one connection each, and hangs up."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            for answer in answers:
                connection, _ = listener.accept()
                with connection:
                    connection.recv(65536)
                    connection.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        thread.join()


def whole(body: bytes, status: str = "200 OK") -> bytes:
    return f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


def test_one_connection_serves_many_requests_and_errors_in_between() -> None:
    with ScriptedNode() as node, client(node.address) as one:
        made = one.submit({"statement": "SELECT 1"})
        with pytest.raises(errors.StatementNotFound, match="no statement 'st_0'"):
            one.statement("st_0")
        assert one.statement(made["id"])["state"] == "success"
        assert one.health()["node_id"] == node.node_id


def test_names_travel_whole() -> None:
    with ScriptedNode() as node, client(node.address) as one:
        with pytest.raises(errors.SessionNotFound):
            one.session("a/b c?d")
        assert node.requests[-1].path == "/api/v1/sessions/a%2Fb%20c%3Fd"


def test_the_token_is_sent() -> None:
    with ScriptedNode(token="right") as node:
        with client(node.address, "right") as one:
            assert one.sessions(limit="1") == {"items": [], "next": None}
        with client(node.address) as one, pytest.raises(errors.Unauthorized):
            one.sessions(limit="1")


def test_a_sub_path_is_kept() -> None:
    with answering(whole(b'{"node_id": "no_1"}')) as address, client(f"{address}/spark/") as one:
        assert one.address == f"{address}/spark"
        assert one.health() == {"node_id": "no_1"}


def test_passing_trouble_is_repeated() -> None:
    trouble = [whole(b"", f"{status} Trouble") for status in (502, 503, 504)]
    with answering(*trouble, b"", whole(b'{"a": 1}')) as address, client(address) as one:
        assert one.health() == {"a": 1}


def test_a_store_that_stays_down_is_told_as_such() -> None:
    with ScriptedNode() as node, client(node.address, patience=0.1) as one:
        node.outages = 1000
        with pytest.raises(errors.StoreUnavailable) as caught:
            one.submit({"statement": "SELECT 1"})
        assert caught.value.exit_code == 3
        keys = {request.headers["idempotency-key"] for request in node.requests}
        assert len(keys) == 1
        assert len(node.requests) > 1


def test_making_a_session_is_not_repeated_once_it_was_sent() -> None:
    with ScriptedNode() as node, client(node.address) as one:
        node.dropped = 1
        with pytest.raises(errors.NodeUnreachable):
            one.create_session({})
        assert len(node.sessions) == 1


def test_nobody_there() -> None:
    with (
        client("http://127.0.0.1:1", patience=0) as one,
        pytest.raises(errors.NodeUnreachable, match=r"http://127\.0\.0\.1:1: .*refused"),
    ):
        one.health()


def test_what_is_no_node() -> None:
    with (
        answering(whole(b"<html>")) as address,
        client(address) as one,
        pytest.raises(errors.NodeUnreachable, match="is no Headrace node"),
    ):
        one.health()


@pytest.mark.parametrize(
    "cut",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n12345",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n12345\r\n",
    ],
)
def test_a_download_that_ends_early_is_an_error(cut: bytes) -> None:
    with answering(cut) as address, client(address) as one:
        got = b""
        with pytest.raises(errors.NodeUnreachable):
            for block in one.download("st_1", "arrow"):
                got += block
        assert b"12345".startswith(got)


def test_a_download_is_asked_for_again_when_the_connection_was_lost() -> None:
    with answering(whole(b"{}"), b"", whole(b"rows")) as address, client(address) as one:
        one.health()  # its connection is closed by the other end
        assert b"".join(one.download("st_1", "arrow")) == b"rows"


def test_a_refused_download() -> None:
    problem = b'{"code": "format_cannot_hold", "detail": "No column `v`."}'
    with (
        answering(whole(problem, "406 Not Acceptable")) as address,
        client(address) as one,
        pytest.raises(errors.FormatCannotHold, match="No column `v`"),
    ):
        one.download("st_1", "parquet")


@pytest.mark.parametrize(
    "address", ["localhost", "ftp://a", "http://", "http://a:b", "http://a:99999"]
)
def test_bad_addresses(address: str) -> None:
    with pytest.raises(errors.InvalidSetting):
        Transport(address)


class TestErrors:
    def test_a_known_code_is_its_class(self) -> None:
        error = from_answer(400, b'{"code": "empty_statement", "detail": "x", "hint": "y"}')
        assert type(error) is errors.EmptyStatement
        assert (error.message, error.hint, error.position) == ("x", "y", None)

    def test_a_position_is_kept(self) -> None:
        error = from_answer(400, b'{"code": "invalid_text", "detail": "x", "line": 2, "column": 3}')
        assert error.position == errors.Position(2, 3)

    @pytest.mark.parametrize(
        ("status", "base", "exit_code"),
        [
            (418, errors.InvalidRequest, 2),
            (403, errors.Unauthorized, 5),
            (409, errors.Conflict, 6),
            (502, errors.NodeUnreachable, 3),
            (500, errors.HeadraceError, 1),
        ],
    )
    def test_an_unknown_code_goes_by_its_status(
        self, status: int, base: type[errors.HeadraceError], exit_code: int
    ) -> None:
        error = from_answer(status, b'{"code": "of_the_future", "detail": "x"}')
        assert isinstance(error, base)
        assert (error.code, error.status, error.exit_code) == ("of_the_future", status, exit_code)

    @pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b"null"])
    def test_what_is_no_problem_still_is_an_error(self, body: bytes) -> None:
        assert from_answer(500, body).message == "The node answered 500."
