"""Packages of clients, each in an environment of its own: their dependencies exclude each other.

`tests/clients` runs them against one node with Spark, `ClientNode`.
"""

from __future__ import annotations

import json
import subprocess
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from tests.support.directory import PASSWORD, Directory, ldap_settings
from tests.support.lakes import lake_extensions, lake_jars
from tests.support.node import NodeProcess
from tests.support.ports import free_ports
from tests.support.waiting import wait_until

ROOT = Path(__file__).parents[2]
DELTA = ("delta", "unitycatalog")
"""Parts of the names of Delta's jars."""


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


class ClientNode:
    """A node with all protocols, and a user who signs in by password or by token.

    Both ways lead to one owner, and so to one driver. Delta is Spark's own catalog.
    """

    user = "ada"
    password = PASSWORD

    def __init__(self, home: Path, directory: Directory, **settings: str) -> None:
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
