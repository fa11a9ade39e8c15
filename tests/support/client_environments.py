"""Packages of clients, each in an environment of its own: their dependencies exclude each other.

`tests/clients` runs them against one node with Spark, `ClientNode`.
"""

from __future__ import annotations

import json
import subprocess
import textwrap
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import httpx
from benchmarks.peers.processes import is_listening, spark_home, spark_server, wait_for
from tests.support.directory import PEOPLE, Directory, ldap_settings
from tests.support.lakes import lake_extensions, lake_jars
from tests.support.node import NodeProcess
from tests.support.ports import free_port, free_ports
from tests.support.waiting import wait_until

from headrace.control.host.java import find_java

ROOT = Path(__file__).parents[2]
SPARK_HOME = spark_home()
THRIFT_SERVER = "org.apache.spark.sql.hive.thriftserver.HiveThriftServer2"
REFUSED = 3
"""Exit status of `JdbcProgram.java` after an error of the driver."""
VALUES = """SELECT
  CAST(NULL AS STRING) AS nothing,
  CAST('12345678901234567890.123456789012345678' AS DECIMAL(38,18)) AS exact,
  CAST(0.5 AS DECIMAL(38,18)) AS half,
  timestamp'2026-01-15T12:00:00.123456Z' AS winter,
  timestamp'2026-07-15T12:00:00Z' AS summer,
  timestamp_ntz'2026-03-08 02:30:00' AS skipped_hour,
  date'2026-01-15' AS day,
  X'00FF41' AS bytes,
  named_struct('a', 1, 'b', 'x', 'c', array(1.5D, NULL)) AS record,
  map('k', 1, 'n', NULL) AS pairs,
  array('x', NULL, 'y') AS list,
  INTERVAL '1-2' YEAR TO MONTH AS months,
  INTERVAL '-1 02:03:04.5' DAY TO SECOND AS seconds,
  true AS flag, 1Y AS tiny, 2S AS small, 3 AS usual, 4L AS large,
  CAST(1.1 AS FLOAT) AS single, 2.5D AS twofold, 'caf\u00e9' AS text"""
"""One row with a value of each type."""
MILLION = "SELECT id FROM range(1000000)"
MILLION_SUM = 999_999 * 1_000_000 // 2
SLOW = "SELECT count(*) FROM range(300) WHERE reflect('java.lang.Thread', 'sleep', 200L) IS NULL"
WRONG = "SELECT 1,\n  nope FROM range(1)"
"""A query with an error in its second line."""
PAIR_TOKEN = "token-of-a-pair-of-nodes"
_NO_LOG = "-Dorg.apache.logging.log4j.level=OFF"
"""Without a file of settings, log4j writes errors between the rows."""
DELTA = ("delta", "unitycatalog")
"""Parts of the names of Delta's jars."""


DBT = ("dbt-core==1.11.16", "dbt-spark[PyHive]==1.11.0")
FLIGHT_SQL = ("adbc-driver-flightsql==1.13.0", "pyarrow==26.0.1", "polars", "duckdb", "pandas")
"""Requirements of clients that several modules run."""


def make_client(name: str, *requirements: str) -> Path:
    """Return the Python of an environment with these packages, which a machine makes once."""
    subprocess.run([ROOT / "scripts" / "setup-client", name, *requirements], check=True)
    return ROOT / ".tools" / "clients" / name / "bin" / "python"


@dataclass(frozen=True)
class PythonClient:
    """A client package in an environment of its own, which runs programs."""

    python: Path
    prelude: str
    """Code before each program: imports, and functions that connect."""

    def run(self, code: str, *, timeout: float = 240, **values: Any) -> Any:
        """Run a program with these variables, and return its variable `seen` from JSON.

        Values that JSON does not have arrive as the text of `repr`. Fails the test if the program
        fails.
        """
        program = "\n".join(
            [
                "import json, sys",
                "globals().update(json.load(sys.stdin))",
                textwrap.dedent(self.prelude),
                textwrap.dedent(code),
                "print(json.dumps(seen, default=repr))",
            ]
        )
        completed = subprocess.run(
            [self.python, "-c", program],
            input=json.dumps(values, default=str),
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
        assert completed.returncode == 0, completed.stderr
        return json.loads(completed.stdout.splitlines()[-1])


class JdbcClient:
    """A driver of JDBC, for which `tests/clients/JdbcProgram.java` acts."""

    def __init__(self, jars: str, url: str) -> None:
        """Create it.

        Args:
            jars: Class path of the driver.
            url: URL with the parts in braces of `ClientNode.values`.
        """
        self._jars = jars
        self._url = url

    def run(self, values: dict[str, Any], *action: str, timeout: float = 240) -> list[Any]:
        """Return what an action has printed. Fails the test unless the action succeeds."""
        process = self.start(values, *action)
        printed, errors = process.communicate(timeout=timeout)
        assert process.returncode == 0, printed + errors
        return [json.loads(line) for line in printed.splitlines()]

    def fail(self, values: dict[str, Any], *action: str) -> tuple[str, str]:
        """Return message and SQLSTATE of an action that must fail."""
        process = self.start(values, *action)
        printed, errors = process.communicate(timeout=240)
        assert process.returncode == REFUSED, printed + errors
        message, state = (json.loads(line) for line in printed.splitlines())
        return message, state

    def start(self, values: dict[str, Any], *action: str) -> subprocess.Popen[str]:
        """Start an action."""
        source = ROOT / "tests" / "clients" / "JdbcProgram.java"
        janino = [str(jar) for name in ("janino", "commons-compiler") for jar in _spark_jars(name)]
        sign_in = (self._url.format_map(values), values["user"], values["password"])
        # Janino compiles the program and calls its main method: no JDK is needed.
        compiler = ("org.codehaus.janino.SimpleCompiler", str(source), source.stem)
        return subprocess.Popen(
            [
                *(_java(), _NO_LOG, "-cp", ":".join([self._jars, *janino])),
                *(*compiler, *sign_in, *action),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )


def spark_class_path() -> str:
    """Return the class path of PySpark's jars, which have beeline and Hive's driver 2.3.10."""
    return str(SPARK_HOME / "jars" / "*")


def jdbc_jar(name: str) -> str:
    """Return the jar of a driver, by the start of its name."""
    jars = list((ROOT / ".tools" / "jdbc").glob(f"{name}*.jar"))
    assert jars, "The drivers of JDBC are missing. Run scripts/setup-jars jdbc."
    return str(jars[0])


@contextmanager
def running_beeline(
    url: str, user: str, password: str, *options: str, driver: str = ""
) -> Iterator[subprocess.Popen[str]]:
    """Run beeline for the block, with its output in CSV.

    Args:
        driver: Jar of the driver of JDBC; that of beeline by default.
    """
    process = subprocess.Popen(
        [
            # Java takes no SIGINT if its parent ignores it, as a job in the background of a shell.
            *("env", "--default-signal=INT"),
            *(_java(), _NO_LOG, "-cp", f"{driver}:{spark_class_path()}"),
            "org.apache.hive.beeline.BeeLine",
            *("-u", url, "-n", user, "-p", password, "--outputformat=csv2", *options),
        ],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


class NodeOfPair(NodeProcess):
    """A node that keeps its ports when it is started again."""

    def __init__(self, home: Path, **settings: str) -> None:
        self.hive_port = free_port()
        ports = {"HIVESERVER2__PORT": str(self.hive_port)}
        super().__init__(home, port=free_port(), TOKEN=PAIR_TOKEN, **ports, **settings)

    def start(self) -> None:
        super().start()
        self.http.headers["Authorization"] = f"Bearer {PAIR_TOKEN}"


@contextmanager
def running_pair(folder: Path, store_url: str, **settings: str) -> Iterator[list[NodeOfPair]]:
    """Run two nodes with one store for the block. Their token is `PAIR_TOKEN`.

    Their tables are those of the driver of a user, which outlives its node.
    """
    shared = {
        "STORE__URL": store_url,
        "CATALOG__KIND": "memory",
        "RESULTS__LOCATION": str(folder / "results"),
        "LEASE__RENEW": "1s",
        **settings,
    }
    with ExitStack() as stack:
        nodes = [NodeOfPair(folder / name, **shared) for name in ("first", "second")]
        for node in nodes:
            stack.callback(node.close)
        yield nodes


def _java() -> str:
    return str(find_java().path / "bin" / "java")


def _spark_jars(name: str) -> list[Path]:
    return sorted((SPARK_HOME / "jars").glob(f"{name}-[0-9]*.jar"))


@contextmanager
def running_thrift_server(folder: Path) -> Iterator[dict[str, Any]]:
    """Run Spark's Thrift Server for the block. Yield the variables of a program that connects."""
    port = free_port()
    settings = {"bind.host": "127.0.0.1", "port": port}
    hiveconf = [("--hiveconf", f"hive.server2.thrift.{k}={v}") for k, v in settings.items()]
    with spark_server(THRIFT_SERVER, {}, [*chain(*hiveconf)], folder / "thrift") as process:
        wait_for(lambda: is_listening(port), process, "the Spark Thrift Server")
        yield {"host": "127.0.0.1", "hive_port": port, "user": "ada", "password": "any"}


class ClientNode:
    """A node with all protocols, and a user who signs in by password or by token.

    Both ways lead to one owner, and so to one driver. Delta is Spark's own catalog.
    """

    user = "ada"
    password = "correct-horse"  # beeline cannot send a space

    def __init__(self, home: Path, directory: Directory, **settings: str) -> None:
        directory.modify(f"uid={self.user},{PEOPLE}", "userPassword", self.password)
        self._directory = directory
        self.hive_port, self.flight_port = free_ports(2)
        jars = lake_jars(*DELTA)
        assert jars, "The jars of Delta are missing. Run scripts/setup-jars catalogs."
        conf = {
            "spark.jars": ",".join(map(str, jars)),
            "spark.sql.extensions": lake_extensions(jars),
            "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
            "spark.databricks.delta.snapshotPartitions": "2",
            "spark.sql.shuffle.partitions": "2",
        }
        self.node = NodeProcess(
            home,
            HIVESERVER2__PORT=str(self.hive_port),
            FLIGHT_SQL__PORT=str(self.flight_port),
            PROFILES=json.dumps({"default": {"conf": conf}}),
            AUTH__METHODS=json.dumps(["token", "ldap"]),
            AUTH__LDAP=json.dumps(ldap_settings(directory, home), default=str),
            **settings,
        )
        self.url = self.node.address
        self.http_port = httpx.URL(self.url).port
        self.http = httpx.Client(base_url=self.url, auth=(self.user, self.password), timeout=120)
        created = self.http.post("/api/v1/tokens", json={"name": "clients", "expires": "1d"})
        assert created.status_code == 201, created.text
        self.token = str(created.json()["token"])

    def guess_password(self) -> dict[str, Any]:
        """Return the variables of a program that connects with a wrong password.

        They are those of a new person: after some failures, a name has to wait.
        """
        name = f"guessed-{uuid.uuid4().hex}"
        self._directory.add_person(name)
        return self.values | {"user": name, "password": "wrong"}

    @property
    def values(self) -> dict[str, Any]:
        """Return the variables of a program that connects."""
        return {
            "url": self.url,
            "host": "127.0.0.1",
            "http_port": self.http_port,
            "hive_port": self.hive_port,
            "flight_port": self.flight_port,
            "user": self.user,
            "password": self.password,
            "token": self.token,
        }

    def statements(self, text: str) -> list[dict[str, Any]]:
        """Return the statements whose text contains this text, newest first."""
        page = self.http.get("/api/v1/statements", params={"limit": 200}).json()
        return [each for each in page["items"] if text in each["statement"]]

    def wait_for_cancel(self, statement: str) -> None:
        """Wait until the driver has cancelled a statement."""

        def is_cancelled() -> bool:
            answer = self.http.get(f"/api/v1/statements/{statement}")
            return bool(answer.json()["state"] == "cancelled")

        wait_until(is_cancelled, what="the statement is cancelled")

    def close(self) -> None:
        """Close the sessions of the user, and the node."""
        query = {"state": ["not_started", "starting", "running", "closing"]}

        def live_sessions() -> list[str]:
            page = self.http.get("/api/v1/sessions", params=query).json()
            return [session["id"] for session in page["items"]]

        for session in live_sessions():
            self.http.delete(f"/api/v1/sessions/{session}")
        wait_until(lambda: not live_sessions(), seconds=60, what="sessions have ended")
        self.http.close()
        self.node.close()
