"""`deploy/compose/compose.yaml`: valid, complete, and right for the nodes that it starts.

No test starts the containers: the environments of the tests have no container engine.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML
from tests.support.deployed_settings import load_settings
from tests.support.nginx import CONFIGURATION
from tests.support.node import NodeProcess

from headrace.control.places import find_unshared
from headrace.frontends.http.server import _SHUTDOWN_SECONDS
from headrace.frontends.process import _check_tls
from headrace.text.durations import parse_duration

ROOT = Path(__file__).parents[2]
FILE = ROOT / "deploy" / "compose" / "compose.yaml"
COMPOSE: dict[str, Any] = YAML(typ="safe").load(FILE)
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
NODES = sorted(name for name in SERVICES if name.startswith("node"))
_VARIABLE = re.compile(r"\$\{(\w+):\?[^}]+\}")


def _mounts(service: str) -> dict[str, str]:
    """Return the source of each mounted path."""
    parts = (mount.split(":") for mount in SERVICES[service].get("volumes", []))
    return {target: source for source, target, *_ in parts}


def _environment(service: str) -> dict[str, str]:
    """Return the variables of a service, with a value for each secret."""
    variables = SERVICES[service].get("environment", {})
    return {name: _VARIABLE.sub("secret" * 6, value) for name, value in variables.items()}


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        value = [*value.keys(), *value.values()]
    if isinstance(value, list):
        for each in value:
            yield from _texts(each)
    else:
        yield str(value)


def test_the_file_follows_the_schema_of_the_compose_specification() -> None:
    program = Path(sys.executable).with_name("check-jsonschema")
    check = [str(program), "--builtin-schema", "vendor.compose-spec", str(FILE)]
    run = subprocess.run(check, capture_output=True, text=True, check=False)

    assert run.returncode == 0, run.stdout + run.stderr


def test_every_name_in_the_file_exists() -> None:
    volumes = set(COMPOSE["volumes"])
    for name, service in SERVICES.items():
        assert set(service.get("depends_on", {})) <= set(SERVICES), name
        for source in _mounts(name).values():
            is_file = source.startswith(".")
            assert (FILE.parent / source).exists() if is_file else source in volumes, source
        for dependency in service.get("depends_on", {}):
            assert "healthcheck" in SERVICES[dependency], dependency
    used = {source for name in SERVICES for source in _mounts(name).values()}
    assert volumes <= used


def test_nginx_names_the_nodes_and_its_port() -> None:
    text = CONFIGURATION.read_text()
    servers = re.findall(r"^ *server (\w+):(\d+) ", text, re.MULTILINE)
    port = re.findall(r"^ *listen (\d+);", text, re.MULTILINE)

    assert [name for name, _ in servers] == NODES
    assert {int(number) for _, number in servers} == {
        load_settings(_environment(name)).http.port for name in NODES
    }
    assert [published.rpartition(":")[2] for published in SERVICES["nginx"]["ports"]] == port
    assert CONFIGURATION.samefile(FILE.parent / _mounts("nginx")["/etc/nginx/conf.d/default.conf"])


@pytest.mark.parametrize("name", NODES)
def test_a_node_has_settings_that_it_understands(name: str) -> None:
    settings = load_settings(_environment(name))
    grace = parse_duration(SERVICES[name]["stop_grace_period"]).total_seconds()

    _check_tls(settings)
    assert settings.store_url == "postgresql://headrace@postgres/headrace"
    assert settings.http.advertise == f"http://{name}:{settings.http.port}"
    assert find_unshared(settings) == {}
    assert _mounts(name)["/shared"] == "shared"
    assert grace > settings.cluster.drain_timeout.total_seconds() + _SHUTDOWN_SECONDS


@pytest.mark.postgres
def test_a_node_starts_with_these_settings(tmp_path: Path, postgres_url: str) -> None:
    """The addresses, and the folders of the containers, are replaced by those of the test."""
    environment = _environment(NODES[0])
    del environment["HEADRACE_HTTP__ADVERTISE"], environment["HEADRACE_HTTP__HOST"]
    environment = {
        name: value.replace("/shared", str(tmp_path / "shared"))
        for name, value in environment.items()
    }
    environment["HEADRACE_STORE__URL"] = postgres_url
    node = NodeProcess(tmp_path / "home", environment=environment)
    try:
        node.http.headers["Authorization"] = f"Bearer {environment['HEADRACE_TOKEN']}"

        assert node.rows("SHOW STREAMS") == []
        assert node.http.get("/api/v1/nodes", headers={"Authorization": ""}).status_code == 401
    finally:
        node.close()


def test_each_node_keeps_its_home_in_a_volume_of_its_own() -> None:
    homes = [load_settings(_environment(name)).home for name in NODES]
    sources = [_mounts(name)["/var/lib/headrace"] for name in NODES]

    assert all(home.is_relative_to("/var/lib/headrace") for home in homes)
    assert len(set(sources)) == len(NODES) == 3


def test_secrets_are_only_in_variables_of_the_environment() -> None:
    variables = set(_VARIABLE.findall(FILE.read_text()))
    assert variables == {"HEADRACE_TOKEN", "POSTGRES_PASSWORD"}
    assert FILE.read_text().count("${") == len(_VARIABLE.findall(FILE.read_text()))
    for service in SERVICES.values():
        others = {key: value for key, value in service.items() if key != "environment"}
        assert not any("${" in text for text in _texts(others))
    ignored = ["git", "check-ignore", "-q", "--no-index", str(FILE.with_name(".env"))]
    assert subprocess.run(ignored, cwd=ROOT, check=False).returncode == 0
