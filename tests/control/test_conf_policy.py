"""The policy that reserves Spark configuration for the operator of a node."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.support.in_process_node import InProcessNode, StartNode, make_settings

from headrace.control.caller import ANONYMOUS, Caller
from headrace.control.node import Node
from headrace.model.session import SessionSpec

pytestmark = pytest.mark.finding("S17")

RESERVED = [
    "spark.master",
    "spark.submit.deployMode",
    "spark.driver.host",
    "spark.driver.bindAddress",
    "spark.driver.port",
    "spark.blockManager.port",
    "spark.driver.blockManager.port",
    "spark.ui.port",
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
    "spark.metrics.namespace",
]


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
        assert node.sessions.open(Caller(ANONYMOUS), spec).spec == spec
    finally:
        node.database.close()
