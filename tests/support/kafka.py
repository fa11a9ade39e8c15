"""A real Kafka broker: one process in KRaft mode."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from pathlib import Path

import pytest
from tests.support.ports import free_ports
from tests.support.waiting import wait_until

from headrace.control.host.java import find_java

TOOLS = Path(__file__).parents[2] / ".tools"
_OPTIONS = ["-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
# 16 bytes in base64. A random id may begin with a minus, which the tool takes for an option.
_CLUSTER = "aGVhZHJhY2Uta2Fma2EtMQ"
_CONFIGURATION = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
log.dirs={folder}/data
num.partitions=2
offsets.topic.num.partitions=1
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
"""


def kafka_jars() -> list[Path]:
    """Return the jars of Spark's Kafka connector; an empty list if they were not downloaded."""
    return sorted((TOOLS / "kafka-connector").glob("*.jar"))


class KafkaBroker:
    """A broker on a fixed port, which can be ended and started again with its records."""

    def __init__(self, folder: Path) -> None:
        """Format the folder and start the broker. Fail the test if the jars are missing."""
        if not (TOOLS / "kafka-broker").is_dir() or not kafka_jars():
            pytest.fail("run scripts/setup-jars kafka-broker kafka-connector")
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.port, controller = free_ports(2)
        self._file = folder / "server.properties"
        self._file.write_text(
            _CONFIGURATION.format(port=self.port, controller=controller, folder=folder)
        )
        storage = self._command("kafka.tools.StorageTool", "format", "-t", _CLUSTER, "-c")
        subprocess.run([*storage, str(self._file)], check=True, capture_output=True, cwd=folder)
        self.start()

    @property
    def address(self) -> str:
        """Value of `kafka.bootstrap.servers`."""
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start the process and wait until it serves."""
        log_file = self._folder / "broker.log"
        begin = log_file.stat().st_size if log_file.exists() else 0
        with log_file.open("ab") as log:
            self._process = subprocess.Popen(
                self._command("kafka.Kafka", str(self._file)),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self._folder,
                start_new_session=True,
            )

        def is_up() -> bool:
            assert self._process.poll() is None, log_file.read_bytes()[begin:][-4000:].decode()
            with socket.socket() as probe:
                return probe.connect_ex(("127.0.0.1", self.port)) == 0

        wait_until(is_up, seconds=120, what="the broker serves")

    def stop(self) -> None:
        """Kill the process. The records stay."""
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def _command(self, main: str, *arguments: str) -> list[str]:
        java = find_java().path / "bin" / "java"
        jars = TOOLS / "kafka-broker" / "*"
        return [str(java), *_OPTIONS, "-cp", str(jars), main, *arguments]
