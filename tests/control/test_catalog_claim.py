"""One store has one catalog: a node that would use another one refuses to start."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.support.in_process_node import make_settings, serve_node
from tests.support.scripted_driver import ScriptedLauncher
from tests.support.waiting import wait_until

from headrace.config.settings import Settings
from headrace.control.catalog_claim import identify_catalog
from headrace.control.host.process_identity import this_host
from headrace.control.node import Node
from headrace.control.sessions.early_launch import LocalParts
from headrace.errors import CatalogMismatch
from headrace.model.lifecycle import NodeState
from headrace.store import catalog_record, nodes
from headrace.store.catalog_record import CatalogRecord
from headrace.store.database import Database

_URIS = "spark.hadoop.hive.metastore.uris"
MANAGED: dict[str, Any] = {"catalog": {"kind": "managed"}}
MEMORY: dict[str, Any] = {"catalog": {"kind": "memory"}}


def external(uris: str, profile: str = "default") -> dict[str, Any]:
    return {"catalog": {"kind": "external"}, "profiles": {profile: {"conf": {_URIS: uris}}}}


def named(value: str, key: str = "spark.sql.catalog.lake.uri") -> dict[str, Any]:
    return {"catalog": {"kind": "external"}, "profiles": {"default": {"conf": {key: value}}}}


def start_briefly(settings: Settings) -> None:
    """Start a node and stop it. Raises CatalogMismatch."""
    with serve_node(settings):
        pass


def refuse(settings: Settings) -> CatalogMismatch:
    """Return the error with which a node refuses to start."""
    node = Node(settings, address="http://refused", embedded=False)
    try:
        with pytest.raises(CatalogMismatch) as refused:
            node.start(request_stop=lambda: None)
    finally:
        node.stop()
    return refused.value


def no_drivers() -> ScriptedLauncher:
    """Return a launcher that starts no driver, so that every session fails."""
    launcher = ScriptedLauncher()
    launcher.refusal = "no driver in this test"
    return launcher


def read_record(settings: Settings) -> CatalogRecord:
    database = Database.open(settings.store_url)
    try:
        with database.read() as tx:
            record = catalog_record.get(tx)
    finally:
        database.close()
    assert record is not None
    return record


@pytest.mark.parametrize(
    ("first", "second", "names"),
    [
        (MANAGED, MANAGED, ("one/metastore", "two/metastore")),
        (MANAGED, MEMORY, ("one/metastore", "the memory of each driver")),
        (MANAGED, external("thrift://a:1"), ("one/metastore", "thrift://a:1")),
        (MEMORY, MANAGED, ("the memory of each driver", "two/metastore")),
        (external("thrift://a:1"), external("thrift://b:1"), ("thrift://a:1", "thrift://b:1")),
        (external("thrift://a:1"), {"catalog": {"kind": "external"}}, ("thrift://a:1", "no addr")),
        (named("http://a/v1"), named("http://b/v1"), ("http://a/v1", "http://b/v1")),
    ],
)
def test_a_node_with_another_catalog_than_a_live_node_of_its_store_is_refused(
    tmp_path: Path, postgres_url: str, first: Any, second: Any, names: tuple[str, str]
) -> None:
    store = {"url": postgres_url}
    with serve_node(make_settings(tmp_path / "one", store=store, **first)) as node:
        error = refuse(make_settings(tmp_path / "two", store=store, **second))
        assert node.http.get("/ready").is_success
    assert error.code == "catalog_mismatch"
    for name in names:
        assert name in error.message
    assert error.hint


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (external("thrift://a:1"), external("THRIFT://A:1/")),
        (external("thrift://a:1,thrift://b:1"), external("thrift://b:1, thrift://a:1")),
        (external("thrift://a:1"), external("thrift://b:1", profile="big")),
        (named("http://a/v1"), named("http://user:secret@A/v1?token=secret")),
        (named("http://a/v1"), named("s3://b/w", key="spark.sql.catalog.lake.warehouse")),
        (
            named("s3://B/w/", key="spark.sql.catalog.lake.warehouse"),
            named("s3a://b/x/../w", key="spark.sql.catalog.lake.warehouse"),
        ),
        (MEMORY, MEMORY),
    ],
)
def test_nodes_with_the_same_catalog_share_a_store(
    tmp_path: Path, postgres_url: str, first: Any, second: Any
) -> None:
    second = {**second, "profiles": {**first.get("profiles", {}), **second.get("profiles", {})}}
    one = make_settings(tmp_path / "one", store={"url": postgres_url}, **first)
    with serve_node(one):
        start_briefly(make_settings(tmp_path / "two", store={"url": postgres_url}, **second))
    assert "secret" not in str(read_record(one))


def test_a_metastore_that_was_deleted_is_to_be_restored(tmp_path: Path, postgres_url: str) -> None:
    settings = make_settings(tmp_path / "one", store={"url": postgres_url}, **MANAGED)
    with serve_node(settings) as node, node.database.write("test") as tx:
        nodes.register(tx, "no_2", address="http://b", version="1", seconds=600)
    shutil.rmtree(tmp_path / "one" / "metastore")
    assert "Restore the folder" in (refuse(settings).hint or "")


def test_nodes_of_one_host_share_the_managed_metastore_of_one_folder(
    tmp_path: Path, postgres_url: str
) -> None:
    store = {"url": postgres_url}
    with serve_node(make_settings(tmp_path / "one", store=store, **MANAGED)):
        hint = refuse(make_settings(tmp_path / "two", store=store, **MANAGED)).hint or ""
        folder = tmp_path / "one" / "metastore"
        assert f"catalog.folder to {folder}" in hint
        (tmp_path / "link").symlink_to(folder)
        joining = {"catalog": {"kind": "managed", "folder": str(tmp_path / "link")}}
        start_briefly(make_settings(tmp_path / "two", store=store, **joining))


def test_a_node_that_stops_leaves_a_shared_metastore_to_its_other_users(tmp_path: Path) -> None:
    folder = tmp_path / "shared"
    catalog = {"kind": "managed", "folder": str(folder)}
    parts = LocalParts.create(make_settings(tmp_path / "one", catalog=catalog), embedded=True)
    assert parts.metastore is not None
    parts.metastore.hold()
    (folder / "metastore.json").write_text('{"pid": 1, "created": 1.0, "port": 1}')
    parts.metastore.stop()
    assert (folder / "metastore.json").exists()


def test_a_copied_metastore_is_refused_while_the_other_node_lives(
    tmp_path: Path, postgres_url: str
) -> None:
    store = {"url": postgres_url}
    with serve_node(make_settings(tmp_path / "one", store=store, **MANAGED)):
        shutil.copytree(tmp_path / "one" / "metastore", tmp_path / "two" / "metastore")
        error = refuse(make_settings(tmp_path / "two", store=store, **MANAGED))
    assert "is a copy of the catalog of the store" in error.message
    # The home of a stopped node can be moved.
    start_briefly(make_settings(tmp_path / "two", store=store, **MANAGED))


def test_containers_of_one_machine_do_not_share_a_metastore(
    tmp_path: Path, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They may share the folder and the process ids, but not the loopback interface."""
    catalog = {"kind": "managed", "folder": str(tmp_path / "shared")}
    store = {"url": postgres_url}
    one, two = (
        make_settings(
            tmp_path / name,
            store=store,
            catalog=catalog,
            cluster={"shared_paths": [str(tmp_path)]},
        )
        for name in ("one", "two")
    )
    with serve_node(one):
        host = replace(this_host(), network_namespace="net:[1]")
        for module in ("places", "catalog_claim", "node"):
            monkeypatch.setattr(f"headrace.control.{module}.this_host", lambda: host)
        node = Node(two, address="http://two", embedded=False)
        with pytest.raises(Exception, match=r"catalog\.kind \(managed\)") as refused:
            node.start(request_stop=lambda: None)
        node.stop()
    assert refused.value.code == "unshared_location"  # type: ignore[attr-defined]


def test_a_catalog_without_tables_can_be_changed(tmp_path: Path) -> None:
    with serve_node(make_settings(tmp_path, **external("thrift://a:1")), no_drivers()) as node:
        assert node.submit("SELECT 1", wait_timeout="60s")["state"] == "failed"
    start_briefly(make_settings(tmp_path, **external("thrift://b:1")))


def test_the_catalog_of_a_store_with_tables_is_replaced_only_on_request(tmp_path: Path) -> None:
    first = make_settings(tmp_path, **external("thrift://a:1"))
    moved = external("thrift://b:1")
    with serve_node(first, no_drivers()) as node:
        table = "CREATE TABLE t AS SELECT 1 AS x"
        assert node.submit(table, wait_timeout="60s")["state"] == "failed"
    error = refuse(make_settings(tmp_path, **moved))
    assert "statements that may have created tables" in error.message
    old = read_record(first).id
    assert f'catalog.replaces = "{old}"' in (error.hint or "")

    moved["catalog"]["replaces"] = old
    replacing = make_settings(tmp_path, **moved)
    start_briefly(replacing)
    # The setting may stay: it names the old catalog only.
    start_briefly(replacing)
    refuse(first)


def test_the_catalog_is_not_replaced_while_a_driver_uses_it(tmp_path: Path) -> None:
    first = make_settings(tmp_path, **external("thrift://a:1"))
    with serve_node(first) as node:
        session_id, _driver = node.start_session()
    changed = external("thrift://b:1")
    changed["catalog"]["replaces"] = read_record(first).id
    error = refuse(make_settings(tmp_path, **changed))
    assert f"the driver of session {session_id}" in error.message


def test_a_node_that_returns_to_a_store_with_another_catalog_stops(
    tmp_path: Path, postgres_url: str
) -> None:
    """Its registration has ended, and an operator has replaced the catalog meanwhile."""
    lease = {"renew": "50ms"}
    settings = make_settings(tmp_path, store={"url": postgres_url}, lease=lease, **MEMORY)
    with serve_node(settings) as node:
        stopped: list[bool] = []
        node.node._request_stop = lambda: stopped.append(True)
        other = identify_catalog(make_settings(tmp_path, **external("thrift://a:1")), None)
        with node.database.write("test") as tx:
            nodes.register(tx, "no_2", address="http://b", version="1", seconds=600)
            catalog_record.put(tx, replace(other, node_id="no_2"))
            nodes.transition(tx, node.node.id, NodeState.GONE, actor="no_2")
        wait_until(lambda: stopped, what="the node asks for its end")
