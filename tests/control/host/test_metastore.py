"""The configuration of the managed catalog, without its processes."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest

from headrace.control.host.metastore import Metastore, SupervisorRecord
from headrace.home import HomeLayout
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


def test_a_metastore_keeps_its_port_unless_another_process_has_taken_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def start(_metastore: Metastore, listener: socket.socket, **_: bool) -> SupervisorRecord:
        assert listener.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
        return SupervisorRecord(1, None, listener.getsockname()[1])

    monkeypatch.setattr(Metastore, "_start_supervisor", start)
    metastore = Metastore(HomeLayout.at(tmp_path), warehouse="w", linger_seconds=0)
    port = int(metastore.ensure()[ADDRESS_KEY].rpartition(":")[2])
    (tmp_path / "metastore" / "metastore.json").write_text(
        json.dumps({"pid": 1, "created": None, "port": port})
    )
    same = metastore.ensure()[ADDRESS_KEY]
    with socket.create_server(("127.0.0.1", port)):
        other = metastore.ensure()[ADDRESS_KEY]
    metastore.release()
    assert same.endswith(f":{port}")
    assert other != same
