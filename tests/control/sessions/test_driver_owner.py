"""A driver acts for the owner of its session, and for no other one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import update
from tests.support.in_process_node import InProcessNode, StartNode, make_settings
from tests.support.store import get_session
from tests.support.waiting import wait_until

from headrace.config.auth import AuthSettings, Role
from headrace.config.profiles import Profile, parse_profile
from headrace.control.jobs import job_sessions
from headrace.control.launchers.registry import build_launchers
from headrace.control.policy import Caller
from headrace.control.sessions.driver_owner import choose_system_user, fill_templates
from headrace.control.sessions.early_launch import LocalParts, launch_early
from headrace.control.sessions.opening import create_session
from headrace.errors import InvalidSetting, LaunchFailed, NotPermitted, SessionNotFound
from headrace.model.deployment import JobSession
from headrace.model.ids import new_id
from headrace.model.lifecycle import SessionState
from headrace.model.session import NewSession, SessionKind, SessionSpec
from headrace.model.statement import StatementSpec
from headrace.store.database import Database
from headrace.store.identity import users
from headrace.store.sessions import sessions, takeovers, warm_sessions
from headrace.store.streams import stream_queries
from headrace.store.tables import sessions as sessions_table
from headrace.store.tables import stream_queries as queries_table

ETL = "group:corp:etl"
ADA, BOB = Caller("ada", groups=frozenset({ETL})), Caller("bob", groups=frozenset({ETL}))
ADMIN = Caller("eve", roles=frozenset({Role.ADMIN, Role.USER}))
SELECT = StatementSpec(text="SELECT 1")


def submit(node: InProcessNode, caller: Caller, **fields: Any) -> tuple[str, str]:
    """Submit a statement. Return the ids of its session and of itself."""
    statement = node.node.statements.submit(caller, fields.pop("spec", SELECT), **fields)
    return statement.session_id, statement.id


def owner_of(node: InProcessNode, session_id: str) -> str:
    return get_session(node.database, session_id).owner


def test_statements_without_a_session_share_a_driver_with_their_owner_only(
    node: InProcessNode,
) -> None:
    chosen = {
        name: submit(node, caller, owner=owner)[0]
        for name, caller, owner in (
            ("ada", ADA, None),
            ("bob", BOB, None),
            ("ada for etl", ADA, ETL),
            ("bob for etl", BOB, ETL),
        )
    }
    assert chosen.pop("bob for etl") == chosen["ada for etl"]
    assert len(set(chosen.values())) == 3
    assert submit(node, ADA)[0] == chosen["ada"]


@pytest.mark.parametrize("kind", [SessionKind.INTERACTIVE, SessionKind.BATCH])
def test_a_named_session_takes_the_statements_of_its_owner_only(
    node: InProcessNode, kind: SessionKind
) -> None:
    session = node.node.sessions.open(ADA, SessionSpec(), kind=kind, name=f"mine-{kind}")
    for caller, refusal in ((BOB, SessionNotFound), (ADMIN, NotPermitted)):
        for spec in (SELECT, replace(SELECT, kind=SessionKind.BATCH)):
            with pytest.raises(refusal):
                submit(node, caller, spec=spec, session=session.id)
    # An API that opens a session where none is usable opens one of the caller.
    other = node.node.statements.submit_to_usable(
        ADMIN, SELECT, session=session.id, catalog=None
    ).session_id
    assert (other != session.id, owner_of(node, other)) == (True, ADMIN.owner)
    # So does a copy of its configuration.
    like = node.node.sessions.open(BOB, SessionSpec(), name=f"mine-{kind}")
    assert (like.id != session.id, like.owner) == (True, BOB.owner)


def test_a_streaming_query_starts_in_a_session_of_its_owner_only(node: InProcessNode) -> None:
    save = StatementSpec(text="SAVE STREAM ticks TO console")
    session = node.node.sessions.open(ADA, SessionSpec(), kind=SessionKind.STREAMING)
    with pytest.raises(SessionNotFound):
        submit(node, BOB, spec=save, session=session.id)
    driver = node.launcher.connect_driver(session.id)
    driver.hello()
    submit(node, ADA, spec=save, session=session.id)
    driver.claim()
    with node.database.read() as tx:
        [query] = stream_queries.desired(tx, session.id).queries
    # Whatever has put a query into the session of another owner, its driver does not run it.
    with node.database.write("test") as tx:
        change = update(queries_table).where(queries_table.c.id == query.id)
        tx.execute(change.values(owner="bob"))
        assert stream_queries.desired(tx, session.id).queries == []
        tx.execute(change.values(owner="ada"))


def test_jobs_of_two_owners_run_in_two_sessions_of_one_name(node: InProcessNode) -> None:
    wanted = JobSession(name="jobs-shared", spec=SessionSpec())
    with node.database.write("test") as tx:
        opened = [
            job_sessions.open_session(tx, node.node.settings, owner, wanted)
            for owner in ("ada", "bob", ETL)
        ]
        checked = [
            job_sessions.open_check_session(tx, node.node.settings, owner, wanted)
            for owner in ("ada", "bob", ETL)
        ]
    assert opened == checked
    assert [owner_of(node, each or "") for each in opened] == ["ada", "bob", ETL]


def test_a_warm_driver_serves_the_owner_who_receives_it_and_no_later_one(
    start_node: StartNode,
) -> None:
    node = start_node(lease={"sweep": "50ms"}, profiles={"default": {"warm": 1}})
    wait_until(lambda: node.launcher.started, what="a warm driver starts")
    warm = node.launcher.started[0]["name"].split("-")[1]
    driver = node.launcher.connect_driver(warm)
    driver.hello()
    assert node.node.sessions.open(ADA, SessionSpec()).id == warm
    assert submit(node, BOB)[0] != warm
    assert node.node.sessions.open(BOB, SessionSpec()).id != warm
    node.node.sessions.close(ADA, warm)
    assert driver.poll().close
    assert owner_of(node, warm) == "ada"


def test_a_warm_driver_of_an_earlier_configuration_serves_no_owner(
    store: Database, tmp_path: Path
) -> None:
    """It runs as the node, and the sessions of the profile now run as their owners."""
    warm = NewSession(
        id=new_id("se"), owner=warm_sessions.UNASSIGNED_OWNER, spec=SessionSpec(), warm=True
    )
    new = NewSession(id=new_id("se"), owner="ada", spec=SessionSpec())
    for run_as, expected in (("owner", new.id), ("node", warm.id)):
        settings = make_settings(tmp_path, profiles={"default": {"run_as": run_as}})
        with store.write("test") as tx:
            if run_as == "owner":
                sessions.insert(tx, warm, actor="no_1")
            assert create_session(tx, settings, new) == expected


def test_a_launch_that_was_begun_for_one_owner_is_not_claimed_for_another(
    store: Database,
) -> None:
    """A warm session is assigned between the read of the session and the claim of its launch."""
    warm = NewSession(
        id=new_id("se"), owner=warm_sessions.UNASSIGNED_OWNER, spec=SessionSpec(), warm=True
    )
    with store.write("test") as tx:
        sessions.insert(tx, warm, actor="no_1")
    with store.write("test") as tx:
        new = NewSession(id=new_id("se"), owner="ada", spec=SessionSpec())
        assert warm_sessions.assign(tx, new) == warm.id
    claim: dict[str, Any] = {"node": "no_1", "seconds": 60, "token_hash": "hash"}
    with store.write("test") as tx:
        assert takeovers.claim_launch(tx, warm.id, owner=warm.owner, **claim) is None
        assert takeovers.claim_launch(tx, warm.id, owner="ada", **claim) == 1


def test_a_driver_is_launched_for_the_owner_that_the_claim_has_found(
    start_node: StartNode,
) -> None:
    node = start_node(lease={"sweep": "1h"})
    session = node.node.sessions.open(ADA, SessionSpec())
    node.launcher.wait_for_request(session.id)
    stale = get_session(node.database, session.id)
    # The same session, as it would be without its driver, now belongs to another owner.
    with node.database.write("test") as tx:
        values = {"owner": "bob", "state": SessionState.NOT_STARTED, "lease_until": None}
        tx.execute(update(sessions_table).where(sessions_table.c.id == session.id).values(**values))
    node.node._launches._start(stale, Profile())
    wait_until(lambda: node.launcher.started, what="the first start returns")
    assert len(node.launcher.started) == 1


def test_the_first_driver_of_an_embedded_node_serves_its_user_only(
    start_node: StartNode, tmp_path: Path
) -> None:
    program = tmp_path / "python"
    program.write_text("#!/bin/sh\nexec sleep 600\n")
    program.chmod(0o755)
    settings = make_settings(tmp_path / "early", profiles={"default": {"python": str(program)}})
    parts = LocalParts.create(settings, embedded=True)
    early = launch_early(settings, parts, address="http://127.0.0.1:1")
    assert early is not None
    try:
        node = start_node()
        node.node._launches.adopt_early(early, owner="ada")
        assert submit(node, BOB)[0] != early.session.id
        assert submit(node, ADA)[0] == early.session.id
    finally:
        early.kill()
        wait_until(parts.launcher.exits, what="the exit status of the driver")
    as_owner = {"default": {"python": str(program), "run_as": "owner"}}
    of_owners = make_settings(tmp_path / "owners", profiles=as_owner)
    parts = LocalParts.create(of_owners, embedded=True)
    assert launch_early(of_owners, parts, address="http://127.0.0.1:1") is None


# The user of the system


def sign_in(database: Database, source: str, subject: str, name: str) -> str:
    with database.write("test") as tx:
        return users.sign_in(tx, source, subject, name=name, groups=[]).id


def choose(database: Database, owner: str, **mapping: Any) -> str:
    oidc = {
        name: {"issuer": f"https://{name}.example.com", "audience": ["h"]}
        for name in mapping.pop("issuers", ["corp"])
    }
    auth = AuthSettings.model_validate(
        {"methods": ["token", "oidc"], "oidc": oidc, "system_users": mapping}
    )
    with database.read() as tx:
        return choose_system_user(tx, auth, owner)


CORP = "https://corp.example.com"


def test_a_user_runs_as_the_user_of_the_system_with_its_name(store: Database) -> None:
    owner = sign_in(store, CORP, "s1", "ada")
    assert choose(store, owner) == "ada"
    assert choose(store, owner, users={"corp": {"s1": "lovelace"}}) == "lovelace"
    # A name is no subject, and subjects of other sources are others.
    assert choose(store, owner, users={"corp": {"ada": "x"}, "other": {"s1": "x"}}) == "ada"


@pytest.mark.parametrize("mapping", ["users", "groups"])
def test_no_name_leads_to_the_user_of_another_owner(store: Database, mapping: str) -> None:
    owner = sign_in(store, CORP, "s1", "svc_etl")
    with pytest.raises(LaunchFailed) as refusal:
        choose(store, owner, **{mapping: {"corp": {"etl": "svc_etl"}}})
    assert "that of another owner's user" in (refusal.value.hint or "")


@pytest.mark.parametrize(
    "name",
    [
        "root",
        "hdfs",
        "Ada",
        "ada ",
        "\uff41\uff44\uff41",
        "-u0",
        "a/b",
        "..",
        "a" * 33,
        "a\0b",
        "0",
        "🍏",
    ],
)
def test_a_name_that_cannot_be_that_of_a_user_of_the_system_starts_no_driver(
    store: Database, name: str
) -> None:
    owner = sign_in(store, CORP, "s1", name.replace("\0", "\u2400"))
    with pytest.raises(LaunchFailed) as caught:
        choose(store, owner)
    assert "auth.system_users.users.corp.s1" in str(caught.value.hint)


def test_names_of_two_sources_lead_to_no_common_user(store: Database) -> None:
    first, second = (
        sign_in(store, f"https://{source}.example.com", "s1", "ada") for source in ("corp", "other")
    )
    both = {"issuers": ["corp", "other"]}
    for owner in (first, second):
        with pytest.raises(LaunchFailed, match="no user of the system"):
            choose(store, owner, **both)
    assert choose(store, first, name_source="corp", **both) == "ada"
    with pytest.raises(LaunchFailed, match="no user of the system"):
        choose(store, second, name_source="corp", **both)


def test_a_group_runs_as_the_user_that_the_settings_name(store: Database) -> None:
    assert choose(store, ETL, groups={"corp": {"etl": "svc_etl"}}) == "svc_etl"
    for mapping in ({}, {"groups": {"corp": {"other": "x"}, "os": {"etl": "x"}}}):
        with pytest.raises(LaunchFailed) as caught:
            choose(store, ETL, **mapping)
        assert "auth.system_users.groups.corp.etl" in str(caught.value.hint)
    with pytest.raises(LaunchFailed, match="never-seen"):
        choose(store, "never-seen")


@pytest.mark.parametrize("name", ["root", "", "-x", "a b", "a" * 33])
def test_the_settings_map_no_owner_to_root(tmp_path: Path, name: str) -> None:
    for kind in ("users", "groups"):
        with pytest.raises(ValueError, match="user of the system"):
            make_settings(tmp_path, auth={"system_users": {kind: {"os": {"x": name}}}})


def test_an_owner_without_a_user_of_the_system_gets_no_driver(start_node: StartNode) -> None:
    profiles = {"default": {"run_as": "owner"}}
    node = start_node(lease={"sweep": "50ms"}, profiles=profiles)
    session = node.node.sessions.open(Caller("never-seen"), SessionSpec())
    wait_until(lambda: get_session(node.database, session.id).state is SessionState.FAILED)
    failure = get_session(node.database, session.id).failure
    assert failure is not None
    assert failure.code == "launch_failed"
    assert "no user of the system" in failure.message
    assert "share-a-server.md" in failure.message
    assert node.launcher.started == []


def test_no_driver_starts_for_a_disabled_user(start_node: StartNode) -> None:
    node = start_node()
    with node.database.write("test") as tx:
        owner = users.sign_in(tx, "corp", "dora", name="dora", groups=()).id
        users.set_disabled(tx, owner, is_disabled=True, actor="root")
    session_id, statement_id = submit(node, Caller(owner))
    wait_until(lambda: get_session(node.database, session_id).state is SessionState.FAILED)
    failure = get_session(node.database, session_id).failure
    assert failure is not None
    assert "No driver starts for 'dora': the user is disabled." in failure.message
    assert node.statement(statement_id)["state"] == "failed"


def test_a_driver_that_runs_as_its_owner_has_places_of_its_own(start_node: StartNode) -> None:
    node = start_node(profiles={"default": {"run_as": "owner"}})
    requests = {}
    for name in ("ada", "bob"):
        owner = sign_in(node.database, "os", name, name)
        session = node.node.sessions.open(Caller(owner), SessionSpec())
        requests[name] = node.launcher.wait_for_request(session.id)
    for name, request in requests.items():
        assert request.run_as == name
        conf = request.bootstrap.conf
        assert request.bootstrap.results.endswith(f"/results/owners/{name}")
        assert conf["spark.sql.warehouse.dir"].endswith(f"/warehouse/{name}")
        assert (conf["spark.authenticate"], conf["spark.ui.enabled"]) == ("true", "false")
        assert {Path(request.bootstrap.results), Path(conf["spark.sql.warehouse.dir"])} < {
            *request.folders
        }
    assert set(requests["ada"].folders).isdisjoint(requests["bob"].folders)


REQUESTED = ["proxyUser", "proxy_user", "run_as", "doAs", "queue"]
KEYS = [
    "proxyUser",
    "hive.server2.proxy.user",
    "spark.hive.server2.proxy.user",
    "spark.hadoop.hive.server2.proxy.user",
    "hive.server2.enable.doAs",
    "spark.proxy.user",
    "spark.submit.proxyUser",
    "spark.hadoop.hadoop.proxyuser.ada.hosts",
    "spark.kerberos.principal",
    "spark.yarn.principal",
    "spark.yarn.keytab",
    "SPARK.KERBEROS.KEYTAB",
    "spark.executorEnv.HADOOP_PROXY_USER",
    "spark.yarn.appMasterEnv.HADOOP_PROXY_USER",
    "spark.kubernetes.namespace",
    "spark.kubernetes.authenticate.driver.serviceAccountName",
]


def test_no_request_says_as_whom_a_driver_runs(node: InProcessNode) -> None:
    with node.expect_no_changes():
        for name in REQUESTED:
            for path, body in (
                ("sessions", {name: "bob"}),
                ("statements", {"statement": "SELECT 1", name: "bob"}),
            ):
                assert node.http.post(f"/api/v1/{path}", json=body).status_code in {400, 422}
        for key in KEYS:
            for path, body in (
                ("sessions", {"conf": {key: "bob"}}),
                ("statements", {"statement": "SELECT 1", "conf": {key: "bob"}}),
            ):
                response = node.http.post(f"/api/v1/{path}", json=body)
                assert response.status_code in {400, 403}, key


# Profiles


@pytest.mark.parametrize(
    ("profile", "message"),
    [
        ({"warm": 1}, "no warm drivers"),
        ({"backend": "emr-serverless", "application_id": "a", "execution_role_arn": "r"}, "run_as"),
        ({"backend": "spark-submit", "master": "spark://h:1"}, "deploy_mode cluster"),
        ({"backend": "spark-submit", "master": "yarn"}, "deploy_mode cluster"),
        (
            {"backend": "spark-submit", "master": "k8s://h", "deploy_mode": "cluster"},
            "needs {owner}",
        ),
    ],
)
def test_a_profile_whose_drivers_cannot_run_as_their_owners_is_refused(
    profile: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        parse_profile({"run_as": "owner", **profile})


def test_the_managed_catalog_is_refused_for_drivers_of_several_users(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"catalog\.kind"):
        make_settings(
            tmp_path, catalog={"kind": "managed"}, profiles={"default": {"run_as": "owner"}}
        )


def test_a_node_that_is_not_root_refuses_to_start_drivers_of_other_users(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = make_settings(tmp_path, profiles={"default": {"run_as": "owner"}})
    parts = LocalParts.create(settings, embedded=False)
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    with pytest.raises(InvalidSetting, match=r"profiles\.default\.run_as.*root"):
        build_launchers(settings, parts.host, parts.launcher)


TEMPLATE = "spark.kubernetes.namespace"


def k8s_profile(namespace: str) -> Profile:
    return parse_profile(
        {
            "backend": "spark-submit",
            "master": "k8s://https://h",
            "deploy_mode": "cluster",
            "run_as": "owner",
            "conf": {TEMPLATE: namespace, "spark.kubernetes.container.image": "{owner}"},
        }
    )


def test_owners_have_namespaces_of_their_own_on_kubernetes() -> None:
    owners = ["ada", "Ada", "a.da", "a-da", "a_da", ETL, "group:corp-etl", "ä", "ö", "x" * 500, "-"]
    filled = [fill_templates(k8s_profile("spark-{owner}"), owner).conf for owner in owners]
    namespaces = [conf[TEMPLATE] for conf in filled]
    assert len(set(namespaces)) == len(owners)
    for namespace in namespaces:
        assert len(namespace) <= 63
        assert namespace.isascii()
        assert namespace == namespace.lower()
        assert not {*namespace} - {*"abcdefghijklmnopqrstuvwxyz0123456789-"}
        assert namespace.startswith("spark-")
    assert {conf["spark.kubernetes.container.image"] for conf in filled} == {"{owner}"}


def test_a_template_that_makes_no_namespace_is_refused() -> None:
    for template in ("Spark-{owner}", f"{'x' * 30}-{{owner}}", "{owner}_x", "{owner}-"):
        with pytest.raises(LaunchFailed, match="no DNS label"):
            fill_templates(k8s_profile(template), "x" * 40)


def test_the_log_of_a_node_says_once_which_isolation_is_missing(
    start_node: StartNode, caplog: pytest.LogCaptureFixture
) -> None:
    oidc = {"corp": {"issuer": CORP, "audience": ["headrace"]}}
    start_node(auth={"methods": ["token", "oidc"], "oidc": oidc}, lease={"sweep": "20ms"})
    said = [each.message for each in caplog.records if "run as one user" in each.message]
    assert len(said) == 1
    assert "profiles default" in said[0]
