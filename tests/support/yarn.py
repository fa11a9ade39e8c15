"""A real YARN on a real HDFS, one node of each, which the processes of a run share."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

import httpx
import pytest
from tests.support.jvm import JvmServices
from tests.support.ports import free_ports
from tests.support.run_cleanup import RUN_ID
from tests.support.shared_services import Address

from headrace.control.host.java import find_java
from headrace.files.private_files import name_of_user

JARS = Path(__file__).parents[2] / ".tools" / "yarn"
FULL, CLOSED = "full", "closed"
"""Queues: in one, applications wait for memory that never comes; the other takes none."""
_JAVA_OPTIONS = [
    "-Xmx256m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "--add-opens=java.base/java.lang=ALL-UNNAMED",
    "--add-opens=java.base/java.util=ALL-UNNAMED",
    "--add-exports=java.base/sun.net.dns=ALL-UNNAMED",
]
_LOGGING = """\
log4j.rootLogger=WARN,console
log4j.appender.console=org.apache.log4j.ConsoleAppender
log4j.appender.console.layout=org.apache.log4j.PatternLayout
log4j.appender.console.layout.ConversionPattern=%d %p %c: %m%n
"""
_YARN = "org.apache.hadoop.yarn.server"
_HDFS = "org.apache.hadoop.hdfs.server"
_OVER = {"FINISHED", "FAILED", "KILLED"}


@dataclass(frozen=True, slots=True)
class YarnCluster:
    """Applications get 12 GB and 8 cores between them; both are promised, not there."""

    conf: Path
    url: str

    def applications(self) -> list[str]:
        """Return the names of those that have not ended."""
        return [item["name"] for item in self._applications() if item["state"] not in _OVER]

    def user_of(self, application: str) -> str:
        """Return the user for whom a live application with this name runs."""
        [user] = [
            item["user"]
            for item in self._applications()
            if item["name"] == application and item["state"] not in _OVER
        ]
        return str(user)

    def create_user_folder(self, name: str) -> None:
        """Create the folder of a user in HDFS, in which spark-submit stages its files."""
        java = str(find_java().path / "bin" / "java")
        shell = [java, *_JAVA_OPTIONS, "-cp", f"{self.conf}:{JARS}/*"]
        for arguments in (["-mkdir", "-p", f"/user/{name}"], ["-chown", name, f"/user/{name}"]):
            command = [*shell, "org.apache.hadoop.fs.FsShell", *arguments]
            subprocess.run(command, capture_output=True, check=True)

    def _applications(self) -> list[dict[str, Any]]:
        response = httpx.get(f"{self.url}/ws/v1/cluster/apps", timeout=60).json()
        return list((response["apps"] or {}).get("app", []))


def start_yarn(folder: Path) -> Address:
    """Start a cluster and wait until it is up; return the fields of its YarnCluster.

    Fail the test where the jars are missing.
    """
    if not JARS.is_dir():
        pytest.fail("the jars of YARN are needed by these tests: run scripts/setup-jars yarn")
    daemons = _Daemons(folder)
    daemons.wait_up()
    return {"conf": str(daemons.conf), "url": daemons.url}


class _Daemons:
    """The four processes of a cluster, with their configuration."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._services = JvmServices(folder)
        self.conf = folder / "conf"
        self.url = self._configure()
        self._run(f"{_HDFS}.namenode.NameNode", "-format", "-nonInteractive")
        self._start("namenode", f"{_HDFS}.namenode.NameNode")
        self._start("datanode", f"{_HDFS}.datanode.DataNode")
        self._start("resourcemanager", f"{_YARN}.resourcemanager.ResourceManager")
        self._start("nodemanager", f"{_YARN}.nodemanager.NodeManager")

    def wait_up(self) -> None:
        self._services.wait(self._is_up, what="YARN is up")

    def _is_up(self) -> bool:
        try:
            response = httpx.get(f"{self.url}/ws/v1/cluster/nodes", timeout=60).json()
            nodes = (response["nodes"] or {}).get("node", [])
            storage = httpx.get(f"{self._namenode}/jmx?qry=Hadoop:*,name=FSNamesystem", timeout=60)
            [state] = storage.json()["beans"]
        except (httpx.TransportError, ValueError):
            return False
        return any(item["state"] == "RUNNING" for item in nodes) and state["NumLiveDataNodes"] == 1

    def _configure(self) -> str:
        names = ["fs", "namenode", "dn", "dn_http", "dn_ipc"]
        names += ["rm", "tracker", "scheduler", "admin", "web", "nm", "localizer", "nm_web"]
        at = dict(zip(names, (f"127.0.0.1:{port}" for port in free_ports(len(names))), strict=True))
        self._namenode = f"http://{at['namenode']}"
        for page in ("hdfs", "datanode"):
            (self.conf / "webapps" / page).mkdir(parents=True)
        (self.conf / "log4j.properties").write_text(_LOGGING)
        # The user of the tests may submit applications for others, as spark-submit --proxy-user.
        proxy = f"hadoop.proxyuser.{name_of_user(os.geteuid())}"
        proxies = {f"{proxy}.hosts": "*", f"{proxy}.users": "*"}
        self._write("core-site", {"fs.defaultFS": f"hdfs://{at['fs']}", **proxies})
        self._write("hdfs-site", self._hdfs(at))
        self._write("yarn-site", self._yarn(at))
        queues = "yarn.scheduler.capacity"
        self._write(
            "capacity-scheduler",
            {
                f"{queues}.root.queues": f"default,{FULL},{CLOSED}",
                f"{queues}.root.default.capacity": "98",
                f"{queues}.root.default.maximum-capacity": "100",
                f"{queues}.root.{FULL}.capacity": "1",
                f"{queues}.root.{FULL}.maximum-capacity": "1",
                f"{queues}.root.{CLOSED}.capacity": "1",
                f"{queues}.root.{CLOSED}.maximum-applications": "0",
                f"{queues}.maximum-am-resource-percent": "1.0",
            },
        )
        return f"http://{at['web']}"

    def _hdfs(self, at: dict[str, str]) -> dict[str, str]:
        return {
            "dfs.replication": "1",
            "dfs.namenode.name.dir": str(self._folder / "name"),
            "dfs.datanode.data.dir": str(self._folder / "data"),
            "dfs.namenode.http-address": at["namenode"],
            "dfs.datanode.address": at["dn"],
            "dfs.datanode.http.address": at["dn_http"],
            "dfs.datanode.ipc.address": at["dn_ipc"],
            "dfs.namenode.datanode.registration.ip-hostname-check": "false",
        }

    def _yarn(self, at: dict[str, str]) -> dict[str, str]:
        of, on = "yarn.resourcemanager", "yarn.nodemanager"
        return {
            f"{of}.hostname": "127.0.0.1",
            f"{of}.address": at["rm"],
            f"{of}.resource-tracker.address": at["tracker"],
            f"{of}.scheduler.address": at["scheduler"],
            f"{of}.admin.address": at["admin"],
            f"{of}.webapp.address": at["web"],
            f"{of}.nodemanagers.heartbeat-interval-ms": "100",
            "yarn.scheduler.minimum-allocation-mb": "128",
            f"{on}.hostname": "127.0.0.1",
            f"{on}.address": at["nm"],
            f"{on}.localizer.address": at["localizer"],
            f"{on}.webapp.address": at["nm_web"],
            f"{on}.local-dirs": str(self._folder / "local"),
            f"{on}.log-dirs": str(self._folder / "containers"),
            f"{on}.resource.memory-mb": "12288",
            f"{on}.resource.cpu-vcores": "8",
            f"{on}.vmem-check-enabled": "false",
            f"{on}.pmem-check-enabled": "false",
            f"{on}.disk-health-checker.enable": "false",
            # Containers belong to the run as well.
            f"{on}.admin-env": f"{RUN_ID}={os.environ[RUN_ID]}",
            "yarn.timeline-service.enabled": "false",
        }

    def _write(self, name: str, properties: dict[str, str]) -> None:
        fields = "".join(
            f"<property><name>{name}</name><value>{escape(value)}</value></property>\n"
            for name, value in properties.items()
        )
        (self.conf / f"{name}.xml").write_text(f"<configuration>\n{fields}</configuration>\n")

    def _command(self, main: str) -> list[str]:
        java = str(self._services.java_home / "bin" / "java")
        return [java, *_JAVA_OPTIONS, "-cp", f"{self.conf}:{JARS}/*", main]

    def _start(self, name: str, main: str) -> None:
        self._services.start(name, self._command(main), {})

    def _run(self, main: str, *arguments: str) -> None:
        done = subprocess.run(
            [*self._command(main), *arguments], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
