"""The configuration of the managed catalog, without its processes."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import pytest

from headrace.config.home import HomeLayout
from headrace.control.host.metastore import Metastore, SupervisorRecord
from headrace.control.host.metastore_supervisor import FOLDER_OPTION
from headrace.model.transaction import MANAGED_CATALOG_KEY

ADDRESS_KEY = "spark.hadoop.hive.metastore.uris"


def ensure(home: Path, port: int, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Return the configuration of a metastore at a port, which does not run."""
    record = SupervisorRecord(1, None, port)
    monkeypatch.setattr(Metastore, "_start_supervisor", lambda _self, _listener, **_: record)
    metastore = Metastore(HomeLayout.at(home), warehouse="w", linger_seconds=0)
    conf = metastore.ensure()
    metastore.release()
    return conf


@pytest.mark.finding("B5")
def test_the_managed_catalog_keeps_its_id_when_its_port_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = (ensure(tmp_path / "a", port, monkeypatch) for port in (1001, 1002))
    other = ensure(tmp_path / "b", 1001, monkeypatch)
    assert first[ADDRESS_KEY] == other[ADDRESS_KEY] != second[ADDRESS_KEY]
    first_id, address = first[MANAGED_CATALOG_KEY].split()
    assert address == first[ADDRESS_KEY]
    assert second[MANAGED_CATALOG_KEY].split() == [first_id, second[ADDRESS_KEY]]
    assert not other[MANAGED_CATALOG_KEY].startswith(first_id)
    assert (tmp_path / "a" / "metastore" / "catalog-id").stat().st_mode & 0o077 == 0


@pytest.fixture
def metastore(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Metastore]:
    """Yield a metastore whose supervisor ends at once."""

    def start(metastore: Metastore, listener: socket.socket, **_: bool) -> SupervisorRecord:
        record = SupervisorRecord(1, None, listener.getsockname()[1])
        folder = metastore.users_lock.parent
        (folder / "metastore.json").write_text(json.dumps(asdict(record)))
        return record

    monkeypatch.setattr(Metastore, "_start_supervisor", start)
    metastore = Metastore(HomeLayout.at(tmp_path), warehouse="w", linger_seconds=0)
    yield metastore
    metastore.release()


def find_port(conf: dict[str, str]) -> int:
    return int(conf[ADDRESS_KEY].rpartition(":")[2])


def test_a_metastore_keeps_its_port_unless_another_process_uses_it(
    metastore: Metastore, caplog: pytest.LogCaptureFixture
) -> None:
    port = find_port(metastore.ensure())
    assert find_port(metastore.ensure()) == port
    # Nodes of other tests may log, too.
    assert [each for each in caplog.records if each.name == "headrace.metastore"] == []
    with socket.create_server(("127.0.0.1", port)):
        assert find_port(metastore.ensure()) != port
    assert f"a process uses port {port}" in caplog.text


def test_the_metastore_of_a_killed_supervisor_leaves_its_port_to_the_next(
    metastore: Metastore,
) -> None:
    port = find_port(metastore.ensure())
    folder = metastore.users_lock.parent
    with socket.create_server(("127.0.0.1", port)) as listener:
        orphan = subprocess.Popen(
            [sys.executable, "-c", "import time; time.sleep(600)", f"{FOLDER_OPTION}{folder}"],
            stdin=listener.fileno(),
        )
    assert find_port(metastore.ensure()) == port
    assert orphan.poll() is not None
