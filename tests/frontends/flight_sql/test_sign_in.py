"""Who calls by Flight SQL, and in which connection."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path
from typing import Any

import grpc
import pytest
from sqlalchemy import select, update
from tests.support.certificates import Authority
from tests.support.directory import PASSWORD, ldap_settings, running_directory
from tests.support.flight_sql import (
    FlightClient,
    FlightNode,
    PlayedSpark,
    Refused,
    fail,
    serve_flight,
    store,
    succeed,
)
from tests.support.waiting import wait_until

from headrace.frontends.flight_sql import server
from headrace.frontends.flight_sql.messages import FlightCommand, read_fields, write_field
from headrace.frontends.flight_sql.sign_in import SignIns
from headrace.model.ids import new_id
from headrace.model.messages import Assignment
from headrace.store.clock import clock
from headrace.store.tables import connections, tokens

COOKIE = "arrow_flight_session_id"


def connection_of(node: FlightNode, text: str) -> str | None:
    """Return the connection in which the last statement with a text has run."""
    connection = node.spark.last(text).connection
    return None if connection is None else connection.id


def basic(user: str, password: str) -> str:
    return f"Basic {base64.b64encode(f'{user}:{password}'.encode()).decode().rstrip('=')}"


def options(**values: str) -> bytes:
    """Return a message `SetSessionOptionsRequest`."""
    return b"".join(
        write_field(1, write_field(1, name) + write_field(2, write_field(1, value)))
        for name, value in values.items()
    )


def read_options(content: bytes) -> dict[str, str]:
    """Return the values of `GetSessionOptionsResult`."""
    entries = [FlightCommand("", read_fields(each)) for each in read_fields(content).get(1, [])]  # type: ignore[arg-type]
    return {
        each.text(1) or "": FlightCommand("", read_fields(each.data(2) or b"")).text(1) or ""
        for each in entries
    }


def read_errors(content: bytes) -> dict[str, int]:
    """Return the errors of `SetSessionOptionsResult`."""
    entries = [FlightCommand("", read_fields(each)) for each in read_fields(content).get(1, [])]  # type: ignore[arg-type]
    return {
        each.text(1) or "": FlightCommand("", read_fields(each.data(2) or b"")).numbers(1)[0]
        for each in entries
    }


def test_all_statements_of_a_client_run_in_its_connection(flight: FlightNode) -> None:
    client, other = flight.connect(), flight.connect()
    client.update("USE one")
    client.query("SELECT in_one")
    other.query("SELECT in_other")
    first = connection_of(flight, "USE one")
    assert first is not None
    assert connection_of(flight, "SELECT in_one") == first
    assert connection_of(flight, "SELECT in_other") not in {None, first}


@pytest.mark.parametrize("keeps", ["token", "cookie"])
def test_a_client_that_has_only_a_token_gets_a_connection_when_it_needs_one(
    flight: FlightNode, keeps: str
) -> None:
    headers = {"authorization": f"Bearer {flight.tokens['ada']}"}
    client = FlightClient(flight.port, headers, takes_tokens=keeps == "token")
    client.update(f"SET {keeps} = 1")
    if keeps == "cookie":
        cookie = client.last_headers["set-cookie"].partition(";")[0]
        assert cookie.startswith(f"{COOKIE}=cn_")
        client.headers["cookie"] = f"other=x; {cookie}"
    client.query(f"SELECT '{keeps}'")
    first = connection_of(flight, f"SET {keeps} = 1")
    assert connection_of(flight, f"SELECT '{keeps}'") == first is not None
    assert "authorization" not in client.last_headers


def test_queries_of_a_client_without_a_session_open_no_connection(flight: FlightNode) -> None:
    headers = {"authorization": f"Bearer {flight.tokens['ada']}"}
    client = FlightClient(flight.port, headers, takes_tokens=False)
    client.query("SELECT alone")
    assert connection_of(flight, "SELECT alone") is None


def test_closing_the_session_ends_the_connection_and_no_statement(flight: FlightNode) -> None:
    client = flight.connect()
    closing: list[Any] = []

    def close(assignment: Assignment) -> dict[str, Any]:
        closing.append(client.act("CloseSession"))
        return succeed([("x", "integer")], [[1]])(assignment)

    flight.spark.answers["SELECT while_closing"] = close
    assert client.query("SELECT while_closing").rows == 1
    assert closing == [[write_field(1, 1)]]
    assert client.act("CloseSession") == [write_field(1, 1)]
    with pytest.raises(Refused, match=r"connection_not_found.*Connect again"):
        client.query("SELECT 1")


def test_a_client_that_has_run_nothing_can_close_its_session(flight: FlightNode) -> None:
    assert flight.connect().act("CloseSession") == [write_field(1, 1)]


def test_a_connection_of_another_owner_is_refused(flight: FlightNode) -> None:
    client = flight.connect()
    client.update("USE mine")
    connection = connection_of(flight, "USE mine")
    other = FlightClient(
        flight.port, {"authorization": f"Bearer {flight.tokens['bob']}~{connection}"}
    )
    with pytest.raises(Refused, match="connection_not_found"):
        other.query("SELECT 1")
    other.act("CloseSession")
    client.query("SELECT still_open")


def test_an_id_that_is_old_or_forged_opens_no_connection(flight: FlightNode) -> None:
    old = f"cn_{'0' * 32}"
    client = FlightClient(flight.port, {"authorization": f"Bearer {flight.tokens['ada']}~{old}"})
    with pytest.raises(Refused, match="connection_not_found"):
        client.update("USE x")
    new = new_id("cn")
    client = FlightClient(flight.port, {"authorization": f"Bearer {flight.tokens['ada']}~{new}"})
    client.update("USE forged")
    assert connection_of(flight, "USE forged") == new
    with flight.node.database.read() as tx:
        row = tx.execute(select(connections).where(connections.c.id == new)).mappings().one()
    assert row["protocol"] == "flight_sql"


def test_the_current_catalog_and_schema_are_options_of_the_session(flight: FlightNode) -> None:
    client = flight.connect()
    [answer] = client.act("SetSessionOptions", options(schema="a.b", catalog="la`ke"))
    assert read_errors(answer) == {}
    assert flight.spark.texts[-2:] == ["SET CATALOG `la``ke`", "USE NAMESPACE `a`.`b`"]
    connection = flight.spark.assignments[-1].connection
    assert connection is not None
    answers = flight.spark.answers
    columns = [("catalog", "string"), ("schema", "string")]
    text = "SELECT current_catalog() AS catalog, current_schema() AS schema"
    answers[text] = succeed(columns, [["lake", "a.b"]])
    [answer] = client.act("GetSessionOptions")
    assert read_options(answer) == {"catalog": "lake", "schema": "a.b"}
    assert connection_of(flight, text) == connection.id


def test_options_that_spark_or_headrace_refuse_are_errors(flight: FlightNode) -> None:
    flight.spark.answers["SET CATALOG `none`"] = fail()
    client = flight.connect()
    [answer] = client.act("SetSessionOptions", options(catalog="none", schema="s", other="x"))
    assert read_errors(answer) == {"other": 1, "catalog": 2}
    [answer] = client.act("SetSessionOptions", options(schema=""))
    assert read_errors(answer) == {"schema": 2}


@pytest.mark.parametrize(
    "header",
    [
        basic("token", "wrong"),
        basic("ada", "wrong"),
        "Bearer wrong",
        f"Bearer ~cn_{'0' * 32}",
        "Basic /w==",
        "Digest x",
    ],
)
def test_wrong_credentials_are_refused(flight: FlightNode, header: str) -> None:
    client = FlightClient(flight.port, {"authorization": header})
    for call in (client.handshake, lambda: client.query("SELECT refused")):
        with pytest.raises(Refused, match="unauthorized") as refused:
            call()
        assert refused.value.status is grpc.StatusCode.UNAUTHENTICATED
        assert "authorization" not in client.last_headers
    assert "SELECT refused" not in flight.spark.texts


def test_a_token_that_is_revoked_ends_a_stream_of_rows(
    flight: FlightNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "_CHECK_SECONDS", 0.0)
    flight.create_token("eve")
    flight.spark.answers["SELECT revoked"] = store([[[n, "x" * 1_000_000]] for n in range(30)])
    client = flight.connect("eve")
    info = client.query("SELECT revoked")
    rows = client.channel.unary_stream("/arrow.flight.protocol.FlightService/DoGet")(
        write_field(1, info.ticket or b""), metadata=list(client.headers.items())
    )
    next(rows)
    service, token = flight.node.node.tokens, flight.tokens["eve"].split("_")[1]
    service.revoke(flight.node.node.authenticator.local_caller, f"tk_{token}")
    with pytest.raises(grpc.RpcError) as refused:
        list(rows)
    assert refused.value.code() is grpc.StatusCode.UNAUTHENTICATED


def test_a_call_without_credentials_is_refused(flight: FlightNode) -> None:
    for call in ("ListActions", "ListFlights", "DoGet"):
        with pytest.raises(Refused, match="unauthorized"):
            FlightClient(flight.port)._call(call, b"")


def test_a_handshake_by_bearer_answers_a_token_too(flight: FlightNode) -> None:
    token = flight.tokens["ada"]
    client = FlightClient(flight.port, {"authorization": f"Bearer {token}"})
    client.handshake()
    assert client.headers["authorization"].startswith(f"Bearer {token}~cn_")
    client.query("SELECT handshake")
    assert connection_of(flight, "SELECT handshake") is not None


def test_a_node_without_a_token_needs_no_sign_in(tmp_path: Path) -> None:
    changes = {"token": None, "http": {"auth": False}}
    with serve_flight(tmp_path / "home", **changes) as node:
        client = FlightClient(node.port)
        client.update("USE open")
        client.query("SELECT open")
        assert connection_of(node, "SELECT open") == connection_of(node, "USE open") is not None
        named = FlightClient(node.port, {"authorization": basic("someone", "x")})
        named.handshake()
        assert named.query("SELECT 1").rows == 2


@pytest.fixture(scope="module")
def directory_settings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """Return settings of a node whose users sign in with the password of a directory."""
    folder = tmp_path_factory.mktemp("directory")
    with running_directory(folder / "slapd") as directory:
        ldap = ldap_settings(directory, folder / "home")
        yield {"auth": {"methods": ["token", "ldap"], "ldap": ldap}}


def expiry_of(node: FlightNode, token: str) -> datetime:
    with node.node.database.read() as tx:
        found = tx.execute(
            select(tokens.c.expires_at).where(tokens.c.id == f"tk_{token.split('_')[1]}")
        ).scalar_one()
    assert isinstance(found, datetime)
    return found


@pytest.mark.ldap
def test_a_password_is_answered_by_a_token_that_lives_while_it_is_used(
    directory_settings: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    changes = {**directory_settings, "flight_sql": {"token_lifetime": "1m"}}
    spark = PlayedSpark()
    monkeypatch.setattr(SignIns, "renew_seconds", 0.2)
    with serve_flight(tmp_path / "home", spark, **changes) as node:
        client = FlightClient(node.port, {"authorization": basic("ada", PASSWORD)})
        client.handshake()
        scheme, _, text = client.headers["authorization"].partition(" ")
        token = text.partition("~")[0]
        assert (scheme, token[:3]) == ("Bearer", "hr_")
        client.query("SELECT signed_in")
        assert connection_of(node, "SELECT signed_in") is not None
        with pytest.raises(Refused, match="unauthorized"):
            FlightClient(node.port, {"authorization": basic("ada", "wrong")}).handshake()
        before = expiry_of(node, token)

        def outlast(assignment: Assignment) -> dict[str, Any]:
            # The token expires while the statement runs.
            with node.node.database.write("test") as tx:
                tx.execute(update(tokens).values(expires_at=clock(-1)))
            wait_until(lambda: expiry_of(node, token) > before, what="the token is renewed")
            return succeed([("x", "integer")], [[1]])(assignment)

        spark.answers["SELECT three_minutes"] = outlast
        info = client.query("SELECT three_minutes")
        assert client.read(info.ticket).num_rows == 1
    with serve_flight(tmp_path / "home", PlayedSpark(), **changes) as again:
        client.move_to(again)
        # The driver of the first node is lost: a statement would wait for another one.
        assert client.list("CommandGetTableTypes").num_rows == 2


@pytest.mark.postgres
@pytest.mark.ldap
def test_token_and_connection_hold_at_every_node(
    directory_settings: dict[str, Any], postgres_url: str, tmp_path: Path
) -> None:
    changes = {**directory_settings, "store": {"url": postgres_url}}
    changes["results"] = {"location": str(tmp_path / "results")}
    spark = PlayedSpark()
    with ExitStack() as stack:
        one = stack.enter_context(serve_flight(tmp_path / "one", spark, **changes))
        two = stack.enter_context(serve_flight(tmp_path / "two", spark, **changes))
        client = FlightClient(one.port, {"authorization": basic("ada", PASSWORD)})
        client.handshake()
        client.act("SetSessionOptions", options(catalog="lake"))
        client.move_to(two)
        client.query("SELECT at_two")
        assert connection_of(two, "SELECT at_two") == connection_of(one, "SET CATALOG `lake`")
        client.act("CloseSession")
        client.move_to(one)
        with pytest.raises(Refused, match="connection_not_found"):
            client.query("SELECT closed")


@pytest.mark.parametrize("is_mutual", [False, True])
def test_a_new_certificate_is_used_without_a_restart(tmp_path: Path, *, is_mutual: bool) -> None:
    authority = Authority(tmp_path / "ca")
    pair = authority.issue("server", "127.0.0.1")
    tls = {"cert": pair.cert, "key": pair.key, "ca": authority.ca}
    if is_mutual:
        tls["client_ca"] = authority.ca
    with serve_flight(tmp_path / "home", tls=tls) as node:
        mine = authority.issue("me") if is_mutual else None

        def connect(ca: Path) -> FlightClient:
            client = FlightClient(node.port, {"authorization": "Bearer of-the-node"})
            key, cert = (None, None) if mine is None else (mine.key, mine.cert)
            credentials = grpc.ssl_channel_credentials(
                ca.read_bytes(), key and key.read_bytes(), cert and cert.read_bytes()
            )
            client.channel = grpc.secure_channel(f"127.0.0.1:{node.port}", credentials)
            return client

        connect(authority.ca).handshake()
        other = Authority(tmp_path / "other")
        pair.replace_by(other.issue("server", "127.0.0.1"))
        connect(other.ca).handshake()
        if is_mutual:
            mine = None
            with pytest.raises(Refused):
                connect(other.ca).handshake()
