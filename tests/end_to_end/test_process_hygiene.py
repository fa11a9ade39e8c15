"""What the processes of a node expose: listeners, file modes, command lines, environments.

One node with one driver, the managed metastore and Spark's UI serves all tests of this file.
"""

from __future__ import annotations

import contextlib
import ipaddress
import json
import sqlite3
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field

import psutil
import pytest
from tests.support.files import find_matching
from tests.support.node import NodeProcess
from tests.support.processes import processes_of
from tests.support.waiting import wait_until

from headrace.config.home import HomeLayout

pytestmark = pytest.mark.spark

_TOKEN = "the-configured-token-0123456789"
_SECRETS = {
    "configured token": _TOKEN,
    "variable of the node": "a-password-in-the-environment",
    "conf of the profile": "a-secret-key-of-the-profile",
    "conf of the session": "a-secret-key-of-the-session",
}


@dataclass(frozen=True)
class Observed:
    """The node, its session, and what its child processes showed while they started and ran."""

    node: NodeProcess
    session: str
    command_lines: set[str] = field(default_factory=set)
    environments: dict[str, dict[str, str]] = field(default_factory=dict)
    """Environment by the name of the process."""

    def observe(self) -> None:
        """Record the command line and the environment of every child process."""
        node_command = psutil.Process(self.node.process.pid).cmdline()
        for process in child_processes(self.node):
            with contextlib.suppress(psutil.Error):
                command = process.cmdline()
                # A child that has not yet executed its program shows the command and the
                # environment of the node.
                if command != node_command:
                    self.command_lines.add(" ".join(command))
                    self.environments[" ".join(command)] = process.environ()


@pytest.fixture(scope="module")
def observed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Observed]:
    """Yield a node whose driver has created tables, and stored a result."""
    profile = {
        "conf": {"spark.hadoop.fs.s3a.secret.key": _SECRETS["conf of the profile"]},
        "env": {"FROM_PROFILE": "yes"},
        "inherit_env": ["PASSED_ON"],
    }
    node = NodeProcess(
        tmp_path_factory.mktemp("hygiene") / "home",
        environment={
            "PGPASSWORD": _SECRETS["variable of the node"],
            "AWS_SECRET_ACCESS_KEY": _SECRETS["variable of the node"],
            "PASSED_ON": "yes",
        },
        TOKEN=_TOKEN,
        PROFILES=json.dumps({"default": profile}),
    )
    node.http.headers["Authorization"] = f"Bearer {_TOKEN}"
    conf = {"spark.hadoop.fs.s3a.session.token": _SECRETS["conf of the session"]}
    seen = Observed(node, node.session(conf=conf))

    def is_running() -> bool:
        seen.observe()
        return node.session_state(seen.session) == "running"

    wait_until(is_running, seconds=240, what="the driver runs")
    table = "CREATE TABLE t PARTITIONED BY (k) AS SELECT id, id % 2 AS k FROM range(10)"
    assert node.run(table, seen.session)["state"] == "success"
    hive = "CREATE TABLE h STORED AS textfile AS SELECT id FROM range(3)"
    assert node.run(hive, seen.session)["state"] == "success"
    assert node.run("INSERT INTO h VALUES (7)", seen.session)["state"] == "success"
    stored = node.run("SELECT * FROM range(100)", seen.session, result="stored")
    assert stored["state"] == "success"
    seen.observe()
    yield seen
    node.close()


def child_processes(node: NodeProcess) -> set[psutil.Process]:
    """Return the processes of a node's home, and all that they started, without the node."""
    processes = processes_of(node.home) | set(psutil.Process(node.process.pid).children())
    for process in list(processes):
        with contextlib.suppress(psutil.Error):
            processes |= set(process.children(recursive=True))
    return {process for process in processes if process.pid != node.process.pid}


@pytest.mark.finding("S1")
def test_every_process_listens_on_loopback_only(observed: Observed) -> None:
    node = psutil.Process(observed.node.process.pid)
    listeners = set()
    for process in {node, *child_processes(observed.node)}:
        # The JVM starts programs that end at once.
        with contextlib.suppress(psutil.NoSuchProcess):
            listeners |= {
                (process.name(), connection.laddr)
                for connection in process.net_connections("inet")
                if connection.status == psutil.CONN_LISTEN
            }
    ports = {address.port for _, address in listeners}
    metastore = json.loads((observed.node.home / "metastore" / "metastore.json").read_text())
    ui_url = observed.node.describe_session(observed.session)["driver"]["ui_url"]
    assert {metastore["port"], int(ui_url.rpartition(":")[2])} < ports
    # Besides: the node, Py4J's gateway and Spark's block manager and RPC.
    assert len(ports) >= 5
    assert {listener for listener in listeners if not _is_loopback(listener[1].ip)} == set()


@pytest.mark.finding("S10")
def test_every_file_in_the_home_is_readable_by_its_owner_only(observed: Observed) -> None:
    home = observed.node.home
    modes = {}
    for path in (home, *find_matching(home, "*")):
        # The driver removes temporary files meanwhile.
        with contextlib.suppress(FileNotFoundError):
            modes[path] = stat.S_IMODE(path.lstat().st_mode)
    names = {path.name for path in modes}
    assert {"headrace.db", "hive-site.xml", "derby.log", "metastore.log", "_SUCCESS"} <= names
    assert [path for path, mode in modes.items() if mode & 0o077] == []


@pytest.mark.finding("S10")
def test_temporary_files_of_a_driver_are_in_its_own_folder_of_the_home(observed: Observed) -> None:
    [folder] = HomeLayout.at(observed.node.home).temporary.iterdir()
    assert folder.name.startswith(f"headrace-{observed.session}-")
    assert list(folder.glob("blockmgr-*"))
    query = "SELECT reflect('java.lang.System', 'getProperty', name) FROM VALUES {} AS t(name)"
    properties = "('java.io.tmpdir'), ('derby.stream.error.file')"
    places = observed.node.rows(query.format(properties), observed.session)
    assert places == [[str(folder)], [str(folder / "derby.log")]]


def test_no_process_writes_its_memory_to_a_core_file(observed: Observed) -> None:
    processes = {psutil.Process(observed.node.process.pid), *child_processes(observed.node)}
    limits = {}
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            limits[process.pid] = process.rlimit(psutil.RLIMIT_CORE)
    assert len(limits) >= 4
    assert set(limits.values()) == {(0, 0)}


@pytest.mark.finding("S6")
def test_no_command_line_of_a_child_process_has_a_secret(observed: Observed) -> None:
    assert len(observed.command_lines) >= 4
    for name, secret in _SECRETS.items():
        assert not [line for line in observed.command_lines if secret in line], name


@pytest.mark.finding("S11")
def test_child_processes_inherit_only_variables_from_the_allow_list(observed: Observed) -> None:
    drivers = 0
    for command_line, environment in observed.environments.items():
        values = set(environment.values())
        assert values.isdisjoint(_SECRETS.values()), command_line
        assert not [name for name in environment if name.startswith("HEADRACE_")], command_line
        # The metastore and Java's version checks are no drivers.
        is_driver = environment.get("FROM_PROFILE") == "yes"
        assert (environment.get("PASSED_ON") == "yes") == is_driver
        drivers += is_driver
    assert 2 <= drivers < len(observed.environments)


@pytest.mark.finding("S11")
def test_the_node_file_does_not_contain_a_configured_token(observed: Observed) -> None:
    record = json.loads((observed.node.home / "node.json").read_text())
    assert record["address"] == observed.node.address
    assert record["token"] is None


@pytest.mark.finding("B5")
def test_table_transactions_name_the_managed_catalog_by_its_id(observed: Observed) -> None:
    # The port of the metastore can change, and the transactions must be found all the same.
    metastore = observed.node.home / "metastore"
    with contextlib.closing(sqlite3.connect(observed.node.home / "headrace.db")) as store:
        identities = store.execute("SELECT DISTINCT identity FROM transactions").fetchall()
    assert [json.loads(identity) for (identity,) in identities] == [
        {"kind": "session", "catalog": (metastore / "catalog-id").read_text()}
    ]


def _is_loopback(address: str) -> bool:
    ip = ipaddress.ip_address(address)
    mapped = ip.ipv4_mapped if isinstance(ip, ipaddress.IPv6Address) else None
    return (mapped or ip).is_loopback
