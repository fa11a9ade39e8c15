"""TLS of a node: its certificate, the certificates of its clients, and new files."""

from __future__ import annotations

import logging
import os
import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from tests.support.certificates import Authority, Pair
from tests.support.in_process_node import InProcessNode, StartNode, make_settings
from tests.support.waiting import wait_until

from headrace.client.http import Client
from headrace.client.tls import ClientTls
from headrace.config.sections import TlsSettings
from headrace.driver.link import NodeLink, NoNodeAnswers
from headrace.errors import ClientCertificateMissing, InvalidSetting, NodeUnreachable, TlsFailed
from headrace.frontends import process
from headrace.frontends.http import server
from headrace.frontends.http.tls import ServerTls
from headrace.model.messages import LINK_VERSION, Hello

ADDRESS = "https://127.0.0.1:8040"
PROTECTED = ("/api/v1/sessions", "/api/v1/sign-in", "/api/v1/openapi.json", "/docs", "/metrics")


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "certificates")


@pytest.fixture
def pair(authority: Authority) -> Pair:
    return authority.issue("node", "127.0.0.1", "::1")


@pytest.fixture
def tls(authority: Authority, pair: Pair) -> dict[str, Any]:
    """Return the settings of a node with a certificate."""
    return {"cert": pair.cert, "key": pair.key, "ca": authority.ca}


@pytest.fixture
def quick_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "CHECK_SECONDS", 0.05)


def client_of(node: InProcessNode, *, ca: Path | None = None, pair: Pair | None = None) -> Client:
    configured = node.node.settings.tls
    files = ClientTls(ca or configured.ca, *((pair.cert, pair.key) if pair else ()))
    return Client(node.address, node.node.token, tls=files, retry_seconds=0)


def read_certificate(node: InProcessNode) -> bytes | None:
    """Return the certificate that a node presents on a new connection."""
    url = urlsplit(node.address)
    assert node.node.settings.tls.ca is not None
    context = ClientTls(node.node.settings.tls.ca).make_context()
    with (
        socket.create_connection((url.hostname, url.port), timeout=60) as connection,
        context.wrap_socket(connection, server_hostname=url.hostname) as secured,
    ):
        return secured.getpeercert(binary_form=True)


def to_der(pair: Pair) -> bytes:
    return ssl.PEM_cert_to_DER_cert(pair.cert.read_text())


def test_a_node_with_a_certificate_serves_commands_and_drivers_by_https(
    start_node: StartNode, tls: dict[str, Any]
) -> None:
    node = start_node(tls=tls)
    assert node.address.startswith("https://")
    session, driver = node.start_session()
    statement = node.submit(session=session)["id"]
    assert driver.succeed(driver.claim().statement_id).applied

    with client_of(node) as client:
        assert client.statement(statement)["state"] == "success"


def test_the_driver_of_a_node_verifies_it_with_the_authority_in_its_bootstrap(
    start_node: StartNode, tls: dict[str, Any], tmp_path: Path
) -> None:
    node = start_node(tls=tls)
    launched = node.launcher.wait_for_request(node.session()).bootstrap
    bootstrap = launched.model_copy(update={"orphan_seconds": 60.0})
    assert bootstrap.token is not None
    hello = Hello(
        pid=1,
        spark_version="4.1",
        application_id="app",
        ui_url=None,
        keeps_tables=False,
        link_version=LINK_VERSION,
    )
    foreign = Authority(tmp_path / "foreign").ca.read_text(encoding="utf-8").partition("\n")[2]
    mistaken = bootstrap.model_copy(update={"ca": foreign, "orphan_seconds": 0.2})

    with pytest.raises(NoNodeAnswers):
        NodeLink(None, mistaken, bootstrap.token).poll([], [])
    assert NodeLink(None, bootstrap, bootstrap.token).hello(hello).applied


def test_the_port_of_tls_answers_no_plain_request(
    start_node: StartNode, tls: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    node = start_node(tls=tls)
    url = urlsplit(node.address)
    for content in (b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", b"\x16\x03\x01 no hello"):
        with socket.create_connection((url.hostname, url.port), timeout=60) as connection:
            connection.sendall(content)
            connection.shutdown(socket.SHUT_WR)
            received = b""
            with suppress(ConnectionResetError):
                while part := connection.recv(1000):
                    received += part
            assert b"HTTP" not in received

    assert node.http.get("/health").status_code == 200
    warned = [each for each in caplog.records if each.levelno >= logging.WARNING]
    # Nodes of other tests may have lost drivers.
    assert [each for each in warned if each.name != "headrace.takeover"] == []


def test_a_client_that_sends_no_handshake_is_disconnected(
    start_node: StartNode, tls: dict[str, Any]
) -> None:
    node = start_node(tls=tls, http={"header_timeout": "300ms"})
    url = urlsplit(node.address)
    with (
        socket.create_connection((url.hostname, url.port), timeout=60) as connection,
        suppress(ConnectionResetError),
    ):
        assert connection.recv(1000) == b""


def test_a_client_refuses_a_node_whose_certificate_it_cannot_verify(
    start_node: StartNode, tls: dict[str, Any], tmp_path: Path
) -> None:
    node = start_node(tls=tls)
    foreign = Authority(tmp_path / "foreign").ca
    with (
        client_of(node, ca=foreign) as client,
        pytest.raises(TlsFailed, match="unable to get local issuer certificate"),
    ):
        client.health()
    with (
        Client(node.address, retry_seconds=0) as client,
        pytest.raises(TlsFailed, match="not accepted"),
    ):
        client.health()
    address = node.address.replace("127.0.0.1", "localhost")
    trust = ClientTls(node.node.settings.tls.ca)
    with (
        Client(address, tls=trust, retry_seconds=0) as client,
        pytest.raises(TlsFailed, match="not valid for 'localhost'"),
    ):
        client.health()


def test_a_client_refuses_a_certificate_that_has_expired(
    start_node: StartNode,
    authority: Authority,
    tls: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    served: list[ssl.SSLContext] = []
    load = ServerTls._load

    def load_and_keep(self: ServerTls) -> ssl.SSLContext:
        served.append(load(self))
        return served[-1]

    monkeypatch.setattr(ServerTls, "_load", load_and_keep)
    node = start_node(tls=tls)
    with client_of(node) as client:
        assert client.health()["status"] == "ok"
    # A node whose certificate expires while it runs still sends it.
    expired = authority.issue("expired", "127.0.0.1", ends=-timedelta(hours=1))
    for context in served:
        context.load_cert_chain(expired.cert, expired.key)
    with client_of(node) as client, pytest.raises(TlsFailed) as refused:
        client.health()
    assert "expired" in refused.value.message


@contextmanager
def without_the_rights_of_root() -> Iterator[None]:
    is_root = os.geteuid() == 0
    if is_root:
        os.seteuid(65534)
    try:
        yield
    finally:
        if is_root:
            os.seteuid(0)


Change = Callable[[TlsSettings, Authority], dict[str, Any]]


def mix_keys(tls: TlsSettings, authority: Authority) -> dict[str, Any]:
    return {"key": authority.issue("other", "127.0.0.1").key}


def use_a_key_with_a_password(tls: TlsSettings, authority: Authority) -> dict[str, Any]:
    pair = authority.issue("locked", "127.0.0.1", password=b"secret")
    return {"cert": pair.cert, "key": pair.key}


def open_the_key(mode: int, owner: int) -> Change:
    def change(tls: TlsSettings, authority: Authority) -> dict[str, Any]:
        pair = authority.issue("open", "127.0.0.1")
        pair.key.chmod(mode)
        if os.geteuid() == 0:
            os.chown(pair.key, owner, 0)
        return {"cert": pair.cert, "key": pair.key}

    return change


def use_a_certificate(**issued: Any) -> Change:
    def change(tls: TlsSettings, authority: Authority) -> dict[str, Any]:
        pair = authority.issue("odd", issued.get("host", "127.0.0.1"), **issued.get("times", {}))
        return {"cert": pair.cert, "key": pair.key}

    return change


def write(**texts: str) -> Change:
    def change(tls: TlsSettings, authority: Authority) -> dict[str, Any]:
        for name, text in texts.items():
            (authority.ca.parent / name).touch(0o600)
            (authority.ca.parent / name).write_text(text)
        return {name: authority.ca.parent / name for name in texts}

    return change


BLOCK = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda *_: {"cert": Path("missing")}, "tls.cert: missing cannot be read: No such file"),
        (lambda *_: {"key": Path("missing")}, "tls.key: missing cannot be read: No such file"),
        (lambda *_: {"ca": Path("missing")}, "tls.ca: missing cannot be read: No such file"),
        (lambda *_: {"client_ca": Path("gone")}, "tls.client_ca: gone cannot be read: No such"),
        (lambda *_: {"ca": None}, "unable to get local issuer certificate"),
        (mix_keys, "tls.key: the key in .*other.key does not belong to the certificate in .*node"),
        (use_a_key_with_a_password, "tls.key: the key in .*locked.key has a password"),
        (open_the_key(0o604, owner=0), "tls.key: other users can read or change the key in .*open"),
        (open_the_key(0o660, owner=0), "tls.key: other users can read or change the key in .*open"),
        (open_the_key(0o640, owner=65534), "tls.key: other users can read or change the key"),
        (use_a_certificate(host="example.com"), "not valid for '127.0.0.1'"),
        (use_a_certificate(times={"ends": -timedelta(hours=1)}), "certificate has expired"),
        (use_a_certificate(times={"starts": timedelta(hours=1)}), "certificate is not yet valid"),
        (write(cert="no certificate"), "are not a certificate and its key in PEM"),
        (write(key="no key"), "are not a certificate and its key in PEM"),
        (write(ca="no certificate"), "tls.ca: .*ca has no valid certificates in PEM"),
        (write(ca=BLOCK), "tls.ca: .*ca has no valid certificates in PEM"),
        (
            write(ca=BLOCK.replace("AAAA", "\u00e4")),
            "tls.ca: .*ca has no valid certificates in PEM",
        ),
        (write(client_ca=BLOCK), "tls.client_ca: .*ca has no valid certificates in PEM"),
    ],
)
def test_a_node_does_not_start_with_files_that_no_client_would_accept(
    tls: dict[str, Any], authority: Authority, change: Change, message: str
) -> None:
    settings = TlsSettings(**tls)
    changed = TlsSettings(**tls | change(settings, authority))
    ServerTls(settings, ADDRESS)
    with pytest.raises(InvalidSetting, match=message):
        ServerTls(changed, ADDRESS)


def test_the_key_of_a_client_is_for_its_user_only(authority: Authority) -> None:
    pair = authority.issue("command")
    pair.key.chmod(0o644)
    with pytest.raises(InvalidSetting, match=r"tls\.client_key: other users can read") as error:
        ClientTls(authority.ca, pair.cert, pair.key).make_context()
    assert "chmod 600" in str(error.value.hint)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a key to root")
def test_a_group_may_read_a_key_of_root(tls: dict[str, Any], pair: Pair) -> None:
    pair.key.chmod(0o640)
    assert ServerTls(TlsSettings(**tls), ADDRESS).problem is None


def test_a_node_does_not_start_with_a_key_that_it_may_not_read(
    tls: dict[str, Any], pair: Pair, tmp_path: Path
) -> None:
    for folder in (tmp_path, *tmp_path.parents[:3]):
        folder.chmod(folder.stat().st_mode | 0o055)
    pair.key.chmod(0o000)
    with (
        without_the_rights_of_root(),
        pytest.raises(InvalidSetting, match=r"tls\.key: .* cannot be read: Permission denied"),
    ):
        ServerTls(TlsSettings(**tls), ADDRESS)


@pytest.mark.usefixtures("quick_checks")
def test_a_new_certificate_is_used_without_a_restart(
    start_node: StartNode, authority: Authority, pair: Pair, tls: dict[str, Any]
) -> None:
    node = start_node(tls=tls)
    first = to_der(pair)
    assert read_certificate(node) == first
    with client_of(node) as client:
        assert client.health()["status"] == "ok"
        pair.replace_by(authority.issue("next", "127.0.0.1"))
        wait_until(lambda: read_certificate(node) == to_der(pair), what="the new certificate")
        assert to_der(pair) != first
        # The connection with the old certificate is still open.
        assert client.health()["status"] == "ok"
    assert node.http.get("/ready").json()["warnings"] == []


@pytest.mark.usefixtures("quick_checks")
def test_a_certificate_that_does_not_match_its_key_leaves_the_last_one_in_use(
    start_node: StartNode,
    authority: Authority,
    pair: Pair,
    tls: dict[str, Any],
    caplog: pytest.LogCaptureFixture,
) -> None:
    node = start_node(tls=tls)
    first = to_der(pair)
    following = authority.issue("next", "127.0.0.1")
    pair.cert.write_bytes(following.cert.read_bytes())

    def warnings() -> list[str]:
        response = node.http.get("/ready")
        assert response.status_code == 200
        texts: list[str] = response.json()["warnings"]
        return texts

    wait_until(warnings, what="the node reports the certificate")
    assert str(pair.cert.parent) not in warnings()[0]
    assert read_certificate(node) == first
    lines = [each for each in caplog.records if each.name == "headrace.tls"]
    assert ["does not belong to the certificate" in each.message for each in lines] == [True]

    pair.key.write_bytes(following.key.read_bytes())
    wait_until(lambda: read_certificate(node) == to_der(following), what="the new certificate")
    assert warnings() == []


def test_a_problem_is_logged_once_and_tried_again_until_it_is_solved(
    authority: Authority, pair: Pair, tls: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    served = ServerTls(TlsSettings(**tls), ADDRESS)
    pair.replace_by(authority.issue("early", "127.0.0.1", starts=timedelta(seconds=10)))
    served.check()
    assert served.problem is None, "files that have just changed may be incomplete"
    for _ in range(3):
        served.check()
        assert served.problem is not None
        assert "not yet valid" in served.problem
    assert len([each for each in caplog.records if each.name == "headrace.tls"]) == 1

    def is_solved() -> bool:
        served.check()
        return served.problem is None

    wait_until(is_solved, what="the certificate is valid")


@pytest.mark.parametrize("name", ["cert", "key", "ca"])
def test_a_file_that_disappears_leaves_the_certificate_in_use(
    tls: dict[str, Any], name: str
) -> None:
    served = ServerTls(TlsSettings(**tls), ADDRESS)
    tls[name].rename(tls[name].with_suffix(".away"))
    served.check()
    served.check()
    assert served.problem is not None
    assert f"tls.{name}" in served.problem
    tls[name].with_suffix(".away").rename(tls[name])
    served.check()
    served.check()
    assert served.problem is None


@pytest.fixture
def clients(tmp_path: Path) -> Authority:
    """Return the CA of the clients, which is not that of the node."""
    return Authority(tmp_path / "clients")


def test_a_node_that_requires_certificates_lets_in_its_drivers_and_probes_without_one(
    start_node: StartNode, tls: dict[str, Any], clients: Authority
) -> None:
    node = start_node(tls=tls | {"client_ca": clients.ca}, token="secret")
    node.http.headers["Authorization"] = "Bearer secret"
    for path in PROTECTED:
        response = node.http.get(path)
        assert (response.status_code, response.json()["code"]) == (
            403,
            "client_certificate_missing",
        )
    assert node.http.get("/health").status_code == 200
    assert node.http.get("/ready").status_code == 200
    with client_of(node) as client, pytest.raises(ClientCertificateMissing):
        client.sessions(limit=1)

    pair = clients.issue("command")
    with client_of(node, pair=pair) as client:
        session = client.create_session({})["id"]
        driver = node.launcher.connect_driver(session)
        assert driver.hello().applied
        statement = client.submit({"statement": "SELECT 1", "session": session})["id"]
        assert driver.succeed(driver.claim().statement_id).applied
        assert client.statement(statement)["state"] == "success"
        # The token of a driver opens nothing but its session.
        headers = {"Authorization": f"Bearer {driver.bootstrap.token}"}
        assert node.http.get("/api/v1/sessions", headers=headers).status_code == 403


def test_a_certificate_of_a_client_replaces_no_token(
    start_node: StartNode, tls: dict[str, Any], clients: Authority
) -> None:
    pair = clients.issue("command")
    files = {"client_ca": clients.ca, "client_cert": pair.cert, "client_key": pair.key}
    node = start_node(tls=tls | files, token="secret")
    assert node.http.get("/api/v1/sessions").status_code == 401
    node.http.headers["Authorization"] = "Bearer secret"
    assert node.http.get("/api/v1/sessions").status_code == 200


def test_a_certificate_of_another_authority_is_refused(
    start_node: StartNode, tls: dict[str, Any], authority: Authority, clients: Authority
) -> None:
    node = start_node(tls=tls | {"client_ca": clients.ca})
    foreign = authority.issue("foreign")
    expired = clients.issue("expired", ends=-timedelta(hours=1))
    for pair in (foreign, expired):
        # OpenSSL has an alert for the client, which the event loop does not send.
        with client_of(node, pair=pair) as client, pytest.raises(NodeUnreachable):
            client.health()
    with client_of(node, pair=clients.issue("command")) as client:
        assert client.health()["status"] == "ok"


@pytest.mark.usefixtures("quick_checks")
def test_another_authority_of_clients_is_used_without_a_restart(
    start_node: StartNode, tls: dict[str, Any], clients: Authority, tmp_path: Path
) -> None:
    node = start_node(tls=tls | {"client_ca": clients.ca})
    pair = clients.issue("command")
    with client_of(node, pair=pair) as client:
        client.sessions(limit=1)
    clients.ca.write_bytes(Authority(tmp_path / "next").ca.read_bytes())

    def is_refused() -> bool:
        with client_of(node, pair=pair) as client:
            try:
                client.sessions(limit=1)
            except NodeUnreachable:
                return True
        return False

    wait_until(is_refused, what="the certificate of the old authority is refused")


@pytest.mark.parametrize("embedded", [False, True])
def test_a_node_that_other_hosts_reach_needs_tls_or_a_proxy(tmp_path: Path, embedded: bool) -> None:
    settings = make_settings(tmp_path, http={"auth": True, "host": "0.0.0.0", "port": 0})
    with pytest.raises(InvalidSetting, match="three ways") as error:
        process.serve(settings, embedded=embedded)
    for way in ("tls.cert and tls.key", "tls.terminated_by_proxy = true", "http.host = 127.0.0.1"):
        assert way in error.value.message
    process._check_tls(settings.model_copy(update={"tls": TlsSettings(terminated_by_proxy=True)}))


def test_an_advertised_address_without_tls_is_refused(tmp_path: Path, tls: dict[str, Any]) -> None:
    settings = make_settings(tmp_path, tls=tls, http={"advertise": "http://127.0.0.1:8040"})
    with pytest.raises(InvalidSetting, match=r"http\.advertise"):
        process.serve(settings, embedded=False)
