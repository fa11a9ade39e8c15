"""A real LDAP directory: OpenLDAP's server, with people and groups, by TLS."""

from __future__ import annotations

import datetime as dt
import ipaddress
import os
import re
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from tests.support.in_process_node import InProcessNode, make_settings, serve_node
from tests.support.ports import free_ports
from tests.support.waiting import wait_until

INSTALLED = Path(__file__).parents[2] / ".tools" / "slapd"
BASE = "dc=example,dc=com"
PEOPLE = f"ou=people,{BASE}"
GROUPS = f"ou=groups,{BASE}"
READER = f"cn=reader,{BASE}"
READER_PASSWORD = "of-the-reader"
PASSWORD = "correct horse"
"""Password of all people."""
MANAGER = f"cn=manager,{BASE}"
_MANAGER_PASSWORD = "of-the-manager"
_DAY = dt.timedelta(days=1)


class Directory:
    """A directory that can be stopped, started again, and frozen."""

    def __init__(self, folder: Path, *, host: str = "127.0.0.1", ends: dt.timedelta = _DAY) -> None:
        """Create it in an empty folder.

        Args:
            host: Address that the certificate of the server names.
            ends: When the certificate of the server expires, from now.
        """
        plain, secure = free_ports(2)
        self.url = f"ldap://127.0.0.1:{plain}"
        self.secure_url = f"ldaps://127.0.0.1:{secure}"
        self.ca = folder / "ca.pem"
        self.log = folder / "log"
        self._folder = folder
        self._ports = (plain, secure)
        self._process: subprocess.Popen[bytes] | None = None
        (folder / "data").mkdir(parents=True)
        _write_certificates(folder, host, ends)
        (folder / "slapd.conf").write_text(self._configuration())
        (folder / "people.ldif").write_text(_entries())
        self._run("-T", "add", "-l", folder / "people.ldif")

    def start(self) -> None:
        command = self._command("-h", f"{self.url} {self.secure_url}", "-d", "stats")
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                command, env=_environment(), stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

        def answers() -> bool:
            assert self._process is not None
            assert self._process.poll() is None, self.log.read_text()
            return all(_listens(port) for port in self._ports)

        wait_until(answers, what="the directory listens")

    def stop(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGCONT)
            self._process.terminate()
            self._process.wait(60)
            self._process = None

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Let the directory hang for the block: connections are accepted, and nothing answers."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._process.send_signal(signal.SIGCONT)

    def count(self, operation: str) -> int:
        """Return how often the directory has begun an operation, for example `BIND`."""
        return len(re.findall(rf" {operation}\b", self.log.read_text()))

    def connect(self) -> Any:
        """Return a connection that may change everything."""
        import ldap

        connection = ldap.initialize(self.url)
        connection.simple_bind_s(MANAGER, _MANAGER_PASSWORD)
        return connection

    def add(self, dn: str, **attributes: str | list[str]) -> None:
        """Add an entry."""
        values = {
            name: [each.encode() for each in ([value] if isinstance(value, str) else value)]
            for name, value in attributes.items()
        }
        connection = self.connect()
        connection.add_s(dn, list(values.items()))
        connection.unbind_s()

    def add_person(self, uid: str, *groups: str) -> str:
        """Add a person, as a member of these groups, and return its DN."""
        import ldap
        from ldap.dn import escape_dn_chars

        dn = f"uid={escape_dn_chars(uid)},{PEOPLE}"
        self.add(dn, objectClass=["inetOrgPerson"], uid=uid, cn=uid, sn=uid, userPassword=PASSWORD)
        connection = self.connect()
        for group in groups:
            member = [(ldap.MOD_ADD, "member", [dn.encode()])]
            connection.modify_s(f"cn={group},{GROUPS}", member)
        connection.unbind_s()
        return dn

    def modify(
        self, dn: str, attribute: str, value: str | None, *, deleted: str | None = None
    ) -> None:
        """Replace an attribute; with `deleted`, delete one of its values."""
        import ldap

        change: tuple[int, str, list[bytes] | None] = (
            (ldap.MOD_DELETE, attribute, [deleted.encode()])
            if deleted is not None
            else (ldap.MOD_REPLACE, attribute, None if value is None else [value.encode()])
        )
        connection = self.connect()
        connection.modify_s(dn, [change])
        connection.unbind_s()

    def _run(self, *arguments: str | Path) -> None:
        done = subprocess.run(
            self._command(*arguments), env=_environment(), capture_output=True, check=False
        )
        assert done.returncode == 0, done.stderr.decode()

    def _command(self, *arguments: str | Path) -> list[str | Path]:
        # slapd is slapadd with the option -T.
        program = INSTALLED / "usr" / "sbin" / "slapd"
        tool, rest = (arguments[:2], arguments[2:]) if arguments[0] == "-T" else ((), arguments)
        return [program, *tool, "-f", self._folder / "slapd.conf", *rest]

    def _configuration(self) -> str:
        schemas = "".join(
            f"include {INSTALLED}/etc/ldap/schema/{name}.schema\n"
            for name in ("core", "cosine", "inetorgperson")
        )
        folder = self._folder
        return f"""{schemas}
modulepath {INSTALLED}/usr/lib/ldap
moduleload back_mdb
pidfile {folder}/pid
argsfile {folder}/args
TLSCACertificateFile {folder}/ca.pem
TLSCertificateFile {folder}/server.pem
TLSCertificateKeyFile {folder}/server.key
# As a server that is careless: a bind without a password is no error.
allow bind_anon_cred bind_anon_dn
database mdb
maxsize 104857600
suffix "{BASE}"
rootdn "{MANAGER}"
rootpw {_MANAGER_PASSWORD}
directory {folder}/data
index objectClass,uid,member eq
access to attrs=userPassword by anonymous auth by * none
access to * by dn.exact="{READER}" read by * none
"""


def _environment() -> dict[str, str]:
    (libraries,) = (INSTALLED / "usr" / "lib").glob("*-linux-gnu*")
    return {**os.environ, "LD_LIBRARY_PATH": str(libraries)}


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _entries() -> str:
    """Return the entries in LDIF: people, and groups in groups."""
    people = {name: f"uid={name},{PEOPLE}" for name in ("ada", "bob", "root")}
    groups = {
        "people": [*people.values()],
        "etl": [people["ada"]],
        # Groups in groups, and two that contain each other.
        "data": [f"cn=etl,{GROUPS}", f"cn=circle,{GROUPS}"],
        "circle": [f"cn=data,{GROUPS}"],
        "admins": [people["root"]],
    }
    entries = [
        f"dn: {BASE}\nobjectClass: dcObject\nobjectClass: organization\no: Example\ndc: example",
        f"""dn: {READER}
objectClass: organizationalRole
objectClass: simpleSecurityObject
cn: reader
userPassword: {READER_PASSWORD}""",
        *(f"dn: {dn}\nobjectClass: organizationalUnit" for dn in (PEOPLE, GROUPS)),
        *(
            f"dn: {dn}\nobjectClass: inetOrgPerson\nuid: {name}\ncn: {name}\nsn: {name}\n"
            f"userPassword: {PASSWORD}"
            for name, dn in people.items()
        ),
        *(
            f"dn: cn={name},{GROUPS}\nobjectClass: groupOfNames\ncn: {name}\n"
            + "\n".join(f"member: {member}" for member in members)
            for name, members in groups.items()
        ),
    ]
    return "\n\n".join(entries) + "\n"


def _write_certificates(folder: Path, host: str, ends: dt.timedelta) -> None:
    """Write a certificate authority, and the certificate of a server that it has signed."""
    authority, key = (
        ec.generate_private_key(ec.SECP256R1()),
        ec.generate_private_key(ec.SECP256R1()),
    )
    issuer = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "authority of the test")])
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "directory of the test")])
    now = dt.datetime.now(dt.UTC)

    def certificate(
        name: x509.Name, of: ec.EllipticCurvePrivateKey, ends: dt.timedelta = _DAY
    ) -> x509.CertificateBuilder:
        builder = x509.CertificateBuilder().subject_name(name).issuer_name(issuer)
        builder = builder.public_key(of.public_key()).serial_number(x509.random_serial_number())
        return builder.not_valid_before(now - 2 * _DAY).not_valid_after(now + ends)

    is_ca = x509.BasicConstraints(ca=True, path_length=None)
    own = certificate(issuer, authority).add_extension(is_ca, critical=True)
    names = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(host))])
    server = certificate(subject, key, ends).add_extension(names, critical=False)
    for file, built in (("ca.pem", own), ("server.pem", server)):
        signed = built.sign(authority, hashes.SHA256())
        (folder / file).write_bytes(signed.public_bytes(serialization.Encoding.PEM))
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    (folder / "server.key").write_bytes(private)


@contextmanager
def running_directory(
    folder: Path, *, host: str = "127.0.0.1", ends: dt.timedelta = _DAY
) -> Iterator[Directory]:
    """Run a directory for the block. Fail the test if scripts/setup-ldap has not installed it."""
    if not (INSTALLED / ".holds").exists():
        pytest.fail("slapd is not installed: scripts/setup-ldap")
    directory = Directory(folder, host=host, ends=ends)
    directory.start()
    try:
        yield directory
    finally:
        directory.stop()


def ldap_settings(directory: Directory, home: Path, **changes: object) -> dict[str, object]:
    """Return settings of `auth.ldap` for a directory."""
    password = home.parent / f"{home.name}.password"
    password.parent.mkdir(parents=True, exist_ok=True)
    password.write_text(f"{READER_PASSWORD}\n")
    password.chmod(0o600)
    return {
        "url": directory.secure_url,
        "ca": directory.ca,
        "bind_dn": READER,
        "bind_password_file": password,
        "user_base": PEOPLE,
        "group_base": GROUPS,
        **changes,
    }


def serve_for(
    directory: Directory, home: Path, *, store: str | None = None, **changes: object
) -> AbstractContextManager[InProcessNode]:
    """Serve a node whose users are those of a directory, with further settings of `auth.ldap`."""
    auth = {
        "methods": ["token", "ldap"],
        "ldap": ldap_settings(directory, home, **changes),
        "roles": {"admin": ["ldap:admins"], "user": ["ldap:people"]},
    }
    stores = {} if store is None else {"store": {"url": store}}
    return serve_node(make_settings(home, token="of-the-node", auth=auth, **stores))
