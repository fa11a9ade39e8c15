"""The policy that reserves Spark configuration for the operator of a node."""

from __future__ import annotations

from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.identities import LOCAL_CALLER
from tests.support.in_process_node import InProcessNode, StartNode, make_settings

from headrace.config.conf_policy import ConfPolicy, find_refusal
from headrace.control.node import Node
from headrace.errors import InvalidSetting
from headrace.model.headrace_options import CONF_OPTIONS
from headrace.model.session import SessionSpec

pytestmark = pytest.mark.finding("S17")

RESERVED = [
    "spark.hadoop.fs.azure.shellkeyprovider.script",
    "spark.hadoop.fs.azure.account.keyprovider.a.dfs.core.windows.net",
    "spark.hadoop.fs.azure.sas.token.provider.type",
    "spark.hadoop.fs.azure.account.oauth.provider.type.a.dfs.core.windows.net",
    "spark.hadoop.fs.azure.account.oauth2.token.file.a.dfs.core.windows.net",
    "spark.hadoop.fs.azure.identity.transformer.class",
    "spark.hadoop.fs.gs.impl",
    "spark.hadoop.fs.gs.auth.access.token.provider.impl",
    "spark.hadoop.fs.gs.auth.service.account.json.keyfile",
    "spark.hadoop.fs.s3a.impl",
    "spark.hadoop.fs.s3a.aws.credentials.provider",
    "spark.hadoop.fs.s3a.bucket.b.aws.credentials.provider",
    "spark.hadoop.fs.s3a.bucket.b.security.credential.provider.path",
    "spark.hadoop.fs.s3a.assumed.role.credentials.provider",
    "spark.hadoop.fs.s3a.auth.profile.file",
    "spark.hadoop.fs.s3a.audit.service.classname",
    "spark.hadoop.fs.s3a.audit.execution.interceptors",
    "spark.hadoop.fs.s3a.custom.signers",
    "spark.hadoop.fs.s3a.http.signer.class",
    "spark.hadoop.fs.s3a.delegation.token.binding",
    "spark.hadoop.fs.s3a.encryption.cse.custom.keyring.class.name",
    "spark.hadoop.fs.s3a.input.stream.custom.factory",
    "spark.hadoop.fs.s3a.s3.client.factory.impl",
    "spark.hadoop.dfs.client.failover.proxy.provider.ns",
    "spark.hadoop.hadoop.security.credential.provider.path",
    "spark.submit.proxyUser.allowCustomClasspathInClusterMode",
    "spark.master",
    "spark.submit.deployMode",
    "spark.driver.host",
    "spark.driver.bindAddress",
    "spark.driver.port",
    "spark.blockManager.port",
    "spark.driver.blockManager.port",
    "spark.ui.port",
    "spark.authenticate",
    "spark.network.crypto.enabled",
    "spark.driver.extraJavaOptions",
    "spark.executor.extraJavaOptions",
    "spark.driver.extraClassPath",
    "spark.pyspark.python",
    "spark.pyspark.driver.python",
    "spark.executorEnv.PYSPARK_PYTHON",
    "spark.jars",
    "spark.jars.packages",
    "spark.jars.ivySettings",
    "spark.files",
    "spark.plugins",
    "spark.remote",
    "spark.kubernetes.driver.podTemplateFile",
    "spark.sql.hive.metastore.jars.path",
    "spark.hadoop.yarn.resourcemanager.address",
    "spark.hadoop.fs.defaultFS",
    "spark.hadoop.hadoop.security.authentication",
    "spark.yarn.stagingDir",
    "spark.yarn.config.gatewayPath",
    "spark.metrics.conf",
    "spark.metrics.conf.*.sink.console.class",
]
FREE = [
    "spark.driver.memory",
    "spark.executor.instances",
    "spark.yarn.queue",
    "spark.sql.shuffle.partitions",
    "spark.sql.catalog.pg.port",
    "spark.hadoop.fs.s3a.endpoint",
    "spark.hadoop.fs.s3a.access.key",
    "spark.hadoop.fs.s3a.create.storage.class",
    "spark.hadoop.fs.azure.account.key.a.dfs.core.windows.net",
    "spark.metrics.namespace",
]


UNLISTED = [
    # Names that Spark still reads for keys of the operator, and of which no pattern is a part.
    "spark.yarn.keytab.file",
    "spark.yarn.executor.memoryOverhead",
    "spark.yarn.am.extraLibraries",
    "spark.eventLog.dir",
    "spark.history.fs.logDirectory",
    "spark.log.structuredLogging.enabled",
    "spark.python.daemon.module",
    "spark.serializer",
    "spark.shuffle.manager",
    "spark.sql.warehouse.dir",
    "spark.sql.hive.metastore.version",
    "spark.sql.queryExecutionListeners",
    "spark.hadoop.fs.file.impl",
    "spark.hadoop.hive.metastore.uris",
    "spark.yarn.tags",
    "hive.metastore.uris",
    "hive.exec.pre.hooks",
    # Keys of a later version.
    "spark.impersonation.user",
    "spark.sql.futureFeature.path",
    "SPARK.SQL.SHUFFLE.PARTITIONS",
    "spark.sql.",
    "spark.sql",
    "spark.driver.memory\n",
    "spark.driver.memory\nspark.master",
]
ALIASES = {
    "spark.yarn.jar": "spark.yarn.jars",
    "spark.yarn.principal": "spark.kerberos.principal",
    "spark.yarn.keytab": "spark.kerberos.keytab",
    "spark.yarn.access.namenodes": "spark.kerberos.access.hadoopFileSystems",
    "spark.yarn.user.classpath.first": "spark.driver.userClassPathFirst",
    "spark.files.userClassPathFirst": "spark.executor.userClassPathFirst",
    "spark.executor.plugins": "spark.plugins",
    "spark.hive.server2.proxy.user": "hive.server2.proxy.user",
    "spark.hadoop.hive.server2.proxy.user": "hive.server2.proxy.user",
    "fs.defaultFS": "spark.hadoop.fs.defaultFS",
    "Spark.Hadoop.FS.DefaultFS": "spark.hadoop.fs.defaultFS",
    "SPARK.MASTER": "spark.master",
    "spark.driver.EXTRACLASSPATH": "spark.driver.extraClassPath",
}


def open_session(node: InProcessNode, **fields: Any) -> httpx.Response:
    return node.http.post("/api/v1/sessions", json=fields)


def submit(node: InProcessNode, conf: dict[str, str]) -> httpx.Response:
    return node.http.post("/api/v1/statements", json={"statement": "SELECT 1", "conf": conf})


@pytest.mark.parametrize("key", RESERVED)
def test_keys_of_the_operator_are_denied_for_sessions_and_statements(
    node: InProcessNode, key: str
) -> None:
    with node.expect_no_changes():
        for response in (open_session(node, conf={key: "x"}), submit(node, {key: "x"})):
            assert (response.status_code, response.json()["code"]) == (403, "setting_denied")
            assert repr(key) in response.json()["detail"]
            assert "conf_policy.deny" in response.json()["detail"]


@pytest.mark.parametrize("key", FREE)
def test_other_keys_are_allowed(node: InProcessNode, key: str) -> None:
    assert open_session(node, conf={key: "1"}).status_code == 201
    assert submit(node, {key: "1"}).status_code == 201


@pytest.mark.parametrize("key", UNLISTED)
def test_a_key_that_the_policy_does_not_list_is_denied(node: InProcessNode, key: str) -> None:
    with node.expect_no_changes():
        for response in (open_session(node, conf={key: "x"}), submit(node, {key: "x"})):
            assert response.status_code in {400, 403}
            assert response.json()["code"] in {"setting_denied", "invalid_setting"}


@pytest.mark.parametrize("alias", ALIASES)
def test_another_name_of_a_reserved_key_is_denied_in_requests_and_in_set(alias: str) -> None:
    policy = ConfPolicy()
    for name in (alias, ALIASES[alias]):
        for rules in (policy.request_rules, policy.rules):
            assert find_refusal(name, rules) is not None, name


def test_a_driver_gets_only_keys_that_its_caller_may_set(start_node: StartNode) -> None:
    """The final configuration has what the node, the profile and the listed keys say."""
    profile = {"conf": {"spark.yarn.jars": "local:/opt", "spark.executor.memory": "1g"}}
    node = start_node(profiles={"default": profile})
    without = node.launcher.wait_for_request(node.session()).bootstrap.conf
    wanted = dict.fromkeys(FREE, "1")
    session = open_session(node, conf=wanted).json()["id"]
    final = node.launcher.wait_for_request(session).bootstrap.conf
    own = {"spark.app.name", "spark.headrace.session.id"}
    changed = {key for key in final if final[key] != without.get(key)} - own
    assert changed == {*FREE}
    assert without.keys() - final.keys() == set()
    for key in changed:
        assert find_refusal(key, ConfPolicy().request_rules) is None


@pytest.mark.parametrize("field", ["jars", "files", "py_files"])
def test_files_that_the_account_of_the_node_would_read_are_denied(
    node: InProcessNode, field: str
) -> None:
    with node.expect_no_changes():
        response = open_session(node, **{field: ["file:///etc/shadow"]})
    assert (response.status_code, response.json()["code"]) == (403, "setting_denied")


def test_the_operator_can_allow_deny_and_force_keys(start_node: StartNode) -> None:
    policy = {
        "allow": ["spark.jars", "spark.driver.extra*"],
        "deny": ["spark.driver.*", "spark.jars*"],
        "force": {"spark.sql.ansi.enabled": "true"},
    }
    profile = {"conf": {"spark.sql.ansi.enabled": "false", "spark.driver.memory": "2g"}}
    node = start_node(conf_policy=policy, profiles={"default": profile})
    for denied in ("spark.driver.memory", "spark.jars.packages", "spark.sql.ansi.enabled"):
        assert open_session(node, conf={denied: "x"}).json()["code"] == "setting_denied"
        assert submit(node, {denied: "x"}).json()["code"] == "setting_denied"
    fields = {"conf": {"spark.driver.extraJavaOptions": "-Xss4m"}, "jars": ["/opt/a.jar"]}
    response = open_session(node, **fields)
    assert response.status_code == 201
    conf = node.launcher.wait_for_request(response.json()["id"]).bootstrap.conf
    assert conf["spark.sql.ansi.enabled"] == "true"
    assert conf["spark.driver.extraJavaOptions"] == "-Xss4m"
    assert (conf["spark.driver.memory"], conf["spark.jars"]) == ("2g", "/opt/a.jar")


def test_the_owner_of_an_embedded_node_is_not_restricted(tmp_path: Path) -> None:
    settings = make_settings(tmp_path, conf_policy={"force": {"spark.sql.ansi.enabled": "true"}})
    node = Node(settings, address="http://127.0.0.1:1", embedded=True)
    try:
        conf = dict.fromkeys([*RESERVED, "spark.sql.ansi.enabled"], "x")
        spec = SessionSpec(conf=conf, jars=["/opt/a.jar"])
        assert node.sessions.open(LOCAL_CALLER, spec).spec == spec
    finally:
        node.database.close()


OPTIONS = {"headrace.ctas.atomicity": "bogus", "spark.headrace.retry.enabled": "maybe"}
UNKNOWN = ["headrace.ctas.atomicty", "spark.headrace.token", "pstl.retry.enabled"]


@pytest.mark.parametrize(("key", "value"), [*OPTIONS.items(), *((key, "true") for key in UNKNOWN)])
def test_an_invalid_option_is_refused_wherever_it_is_set(
    start_node: StartNode, tmp_path: Path, key: str, value: str
) -> None:
    node = start_node(conf_policy={"allow": ["spark.*", "headrace.*"]})
    for response in (open_session(node, conf={key: value}), submit(node, {key: value})):
        assert (response.status_code, response.json()["code"]) == (400, "invalid_setting")
        assert key in response.json()["detail"]
    places: list[dict[str, Any]] = [
        {"profiles": {"default": {"conf": {key: value}}}},
        {"conf_policy": {"force": {key: value}}},
    ]
    for place in places:
        with pytest.raises(InvalidSetting, match=key):
            start_node(**place)


def test_a_driver_gets_the_rules_for_set_that_requests_have(start_node: StartNode) -> None:
    node = start_node(conf_policy={"force": {"spark.sql.ansi.enabled": "true"}})
    rules = node.launcher.wait_for_request(node.session()).bootstrap.conf_rules
    for key in [*RESERVED, "spark.sql.ansi.enabled"]:
        refusal = find_refusal(key, rules)
        assert refusal is not None, key
        assert refusal.code == "setting_denied"
    for key in [*UNKNOWN, "Spark.Headrace.x", "headrace."]:
        refusal = find_refusal(key, rules)
        assert refusal is not None, key
        assert refusal.code == "invalid_setting"
    for key in [*FREE, *CONF_OPTIONS, "my.own", "headraces", "spark.pstl.x"]:
        assert find_refusal(key, rules) is None, key
    # Spark passes properties of Hadoop on to file systems under their own names, too.
    for key in ("fs.defaultFS", "hadoop.security.authentication", "yarn.x"):
        assert find_refusal(key, rules) is not None, key


@given(
    st.lists(st.text("spark.*hdo[]?x\\$", max_size=12), max_size=3),
    st.text("spark.hdox", max_size=9),
)
def test_only_a_star_is_special_in_a_pattern(patterns: list[str], key: str) -> None:
    rules = ConfPolicy(deny=patterns).rules
    names = [pattern.replace("[", "[[]").replace("?", "[?]") for pattern in patterns]
    expected = any(fnmatchcase(key, name) for name in names)
    short = any(
        fnmatchcase(f"spark.hadoop.{key}", name)
        for name in names
        if name.startswith("spark.hadoop.")
    )
    assert (find_refusal(key, rules) is not None) == (expected or short)
