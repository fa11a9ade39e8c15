"""Nodes of several hosts: which settings name places that only one host can reach."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from tests.support.in_process_node import make_settings, serve_node
from tests.support.store import waits_for_lock
from tests.support.waiting import wait_until

from headrace.control.host.health_checks import CheckStatus, check_cluster
from headrace.control.host.process_identity import this_host
from headrace.control.node import Node
from headrace.control.places import (
    SessionPlaces,
    check_locations,
    check_watched_location,
    find_unshared,
    find_watch_denial,
)
from headrace.errors import InvalidLocation, InvalidSetting, UnsharedLocation
from headrace.store import nodes
from headrace.store.database import Database

SHARED: dict[str, Any] = {
    "results": {"location": "s3://bucket/results"},
    "streams": {"checkpoints": "s3://bucket/wal", "location": "s3://bucket/streams"},
    "jobs": {"state_location": "s3://bucket/jobs"},
    "catalog": {"kind": "external", "warehouse": "s3://bucket/warehouse"},
}


def register_other_host(url: str, *, machine: str = "another machine") -> None:
    """Register a live node on another host, whose name is `far`."""
    host = {**this_host().to_record(), "machine": machine, "name": "far"}
    database = Database.open(url)
    with database.write("test") as tx:
        nodes.register(tx, "no_far", address="http://far", version="1", seconds=60, host=host)
    database.close()


def test_a_node_with_local_files_does_not_join_a_node_of_another_host(
    tmp_path: Path, postgres_url: str
) -> None:
    register_other_host(postgres_url)
    settings = make_settings(tmp_path, store={"url": postgres_url}, catalog={"kind": "external"})
    node = Node(settings, address="http://near", embedded=False)
    with pytest.raises(UnsharedLocation) as refused:
        node.start(request_stop=lambda: None)
    node.stop()

    message = refused.value.message
    assert "no_far on the host far" in message
    for name in ("results.location", "streams.checkpoints", "catalog.warehouse"):
        assert f"{name} ({tmp_path}" in message


def test_of_two_nodes_that_start_at_once_the_second_sees_the_first(
    tmp_path: Path, postgres_url: str
) -> None:
    settings = make_settings(tmp_path, store={"url": postgres_url}, catalog={"kind": "external"})
    node = Node(settings, address="http://near", embedded=False)
    database = Database.open(postgres_url)
    host = {**this_host().to_record(), "machine": "another machine", "name": "far"}

    with ThreadPoolExecutor(1) as pool:
        with database.write("test") as tx:
            nodes.lock_registrations(tx)
            nodes.register(tx, "no_far", address="http://far", version="1", seconds=60, host=host)
            starting = pool.submit(node.start, request_stop=lambda: None)
            wait_until(
                lambda: waits_for_lock(database), what="the registration of the second node waits"
            )
        with pytest.raises(UnsharedLocation):
            starting.result()
    node.stop()
    database.close()


def test_a_node_with_local_files_joins_a_node_of_its_own_host(
    tmp_path: Path, postgres_url: str
) -> None:
    register_other_host(postgres_url, machine=this_host().machine)
    with serve_node(make_settings(tmp_path, store={"url": postgres_url})) as node:
        assert len(node.http.get("/api/v1/nodes").json()["items"]) == 2


def test_a_node_whose_files_all_hosts_reach_joins_them(tmp_path: Path, postgres_url: str) -> None:
    register_other_host(postgres_url)
    shared = make_settings(
        tmp_path, store={"url": postgres_url}, cluster={"shared_paths": [str(tmp_path)]}
    )
    with serve_node(shared) as node:
        assert node.http.get("/ready").status_code == 200


def test_the_settings_that_only_one_host_can_reach(tmp_path: Path) -> None:
    local = make_settings(tmp_path, catalog={"kind": "managed"})
    mounted = make_settings(tmp_path, cluster={"shared_paths": [str(tmp_path / "home")]})

    assert find_unshared(make_settings(tmp_path, **SHARED)) == {}
    assert find_unshared(local)["catalog.kind"] == "managed"
    assert "catalog.warehouse" not in find_unshared(make_settings(tmp_path))
    assert "results.location" in find_unshared(mounted)
    watched = {"watched_locations": {"/data": ["*"], "s3a://lake": ["*"], "*": ["*"]}}
    found = find_unshared(make_settings(tmp_path, jobs=watched))
    assert found["jobs.watched_locations./data"] == "/data"
    assert len([name for name in found if "watched" in name]) == 1


def test_doctor_says_whether_nodes_can_run_on_several_hosts(
    tmp_path: Path, postgres_url: str
) -> None:
    store = {"url": postgres_url}
    alone = check_cluster(make_settings(tmp_path))
    local = check_cluster(make_settings(tmp_path, store=store))
    shared = check_cluster(make_settings(tmp_path, store=store, **SHARED))

    assert (alone.status, shared.status) == (CheckStatus.OK, CheckStatus.OK)
    assert local.status is CheckStatus.WARNING
    assert "results.location" in local.found
    assert local.fix


@pytest.mark.parametrize(
    "setting", ["results.location", "streams.checkpoints", "jobs.state_location"]
)
def test_a_node_does_not_start_with_a_password_in_a_location(tmp_path: Path, setting: str) -> None:
    section, name = setting.split(".")
    settings = make_settings(tmp_path, **{section: {name: "s3a://key:hunter2@bucket/x"}})
    with pytest.raises(InvalidSetting, match=setting) as caught:
        Node(settings, address="http://127.0.0.1:1", embedded=False)

    assert "hunter2" not in f"{caught.value.message} {caught.value.hint}"


def test_a_node_does_not_start_with_a_password_in_a_watched_location(tmp_path: Path) -> None:
    watched = {"s3a://key:hunter2@bucket/x": ["ada"]}
    settings = make_settings(tmp_path, jobs={"watched_locations": watched})
    with pytest.raises(InvalidSetting, match=r"jobs\.watched_locations") as caught:
        check_locations(settings)
    assert "hunter2" not in f"{caught.value.message} {caught.value.hint}"


def test_a_path_that_spark_reads_from_another_file_system_cannot_be_followed(
    tmp_path: Path,
) -> None:
    places = SessionPlaces(
        make_settings(tmp_path), "default", {"spark.hadoop.fs.defaultFS": "s3a://lake"}
    )
    with pytest.raises(InvalidLocation, match=r"reads from spark\.hadoop\.fs\.defaultFS"):
        check_watched_location(places, "/in")
    for location in ("file:/in", "S3A://lake/in"):
        check_watched_location(places, location)


@pytest.mark.parametrize(
    ("location", "owners", "is_allowed"),
    [
        ("/data/in", {"ada"}, True),
        ("file:///data", {"ada"}, True),
        ("/data/../etc", {"ada"}, False),
        ("/data2", {"ada"}, False),
        ("/data/in", {"eve"}, False),
        ("s3a://lake/in/x", {"eve", "group:corp:etl"}, True),
        ("s3a://lake/x", {"eve", "group:corp:etl"}, False),
        ("/public", {"eve"}, True),
        ("/public", set[str](), False),
        ("/elsewhere", {"root"}, True),
    ],
    ids=["below", "same", "dots", "prefix", "owner", "group", "beside", "all", "disabled", "any"],
)
def test_owners_follow_the_locations_that_list_them(
    tmp_path: Path, location: str, owners: set[str], is_allowed: bool
) -> None:
    watched = {
        "/data": ["ada"],
        "s3://lake/in": ["group:corp:etl"],
        "/public": ["*"],
        "*": ["root"],
    }
    settings = make_settings(tmp_path, jobs={"watched_locations": watched})
    denial = find_watch_denial(settings, frozenset(owners), location)
    assert (denial is None) == is_allowed
