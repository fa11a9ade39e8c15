"""`deploy/kubernetes/`: valid, complete, and right for the nodes that the manifests start.

No test applies the manifests: the environments of the tests have no Kubernetes.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
from ruamel.yaml import YAML
from tests.support.deployed_settings import load_settings

from headrace.config.profiles import SparkSubmitProfile
from headrace.config.settings import Settings
from headrace.control.places import find_unshared
from headrace.frontends.http.allowed_hosts import AllowedHosts, HostAndPort
from headrace.frontends.http.server import _SHUTDOWN_SECONDS
from headrace.frontends.process import _check_tls

FOLDER = Path(__file__).parents[2] / "deploy" / "kubernetes"
MANIFESTS: dict[str, dict[str, Any]] = {
    f"{manifest['kind']}/{manifest['metadata']['name']}": manifest
    for file in sorted(FOLDER.glob("*.yaml"))
    for manifest in YAML(typ="safe").load_all(file)
}
VERSIONS = ("1.29", kubernetes_validate.latest_version())
NAMESPACE = "sql"
STATEFUL_SET = MANIFESTS["StatefulSet/headrace"]["spec"]
POD = STATEFUL_SET["template"]["spec"]
NODE = POD["containers"][0]
LABELS = STATEFUL_SET["template"]["metadata"]["labels"]


def _environment() -> dict[str, str]:
    """Return the variables of the first pod, as the kubelet expands them."""
    variables: dict[str, str] = {}
    for variable in NODE["env"]:
        value = variable.get("value", "headrace-0")
        variables[variable["name"]] = value.replace("$(POD_NAME)", variables.get("POD_NAME", ""))
    return variables


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """Return the settings that the node of a pod loads."""
    environment = _environment()
    folder, _, name = environment["HEADRACE_CONFIG"].rpartition("/")
    mounts = {mount["mountPath"]: mount["name"] for mount in NODE["volumeMounts"]}
    volume = next(volume for volume in POD["volumes"] if volume["name"] == mounts[folder])
    data = MANIFESTS[f"ConfigMap/{volume['configMap']['name']}"]["data"]
    file = tmp_path / name
    file.write_text(data[name])
    secrets = {"HEADRACE_TOKEN": "secret", "PGPASSWORD": "secret"}
    return load_settings({**environment, **secrets, "HEADRACE_CONFIG": str(file)})


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", MANIFESTS)
def test_a_manifest_follows_the_schema_of_kubernetes(name: str, version: str) -> None:
    kubernetes_validate.validate(MANIFESTS[name], version, strict=True)


def test_every_object_that_a_manifest_names_exists() -> None:
    claims = {volume.get("persistentVolumeClaim", {}).get("claimName") for volume in POD["volumes"]}
    binding = MANIFESTS["RoleBinding/headrace-drivers"]

    assert f"Service/{STATEFUL_SET['serviceName']}" in MANIFESTS
    assert f"ServiceAccount/{POD['serviceAccountName']}" in MANIFESTS
    assert f"Role/{binding['roleRef']['name']}" in MANIFESTS
    assert [subject["name"] for subject in binding["subjects"]] == [POD["serviceAccountName"]]
    assert {f"PersistentVolumeClaim/{claim}" for claim in claims - {None}} <= set(MANIFESTS)


def test_every_mount_of_a_pod_has_a_volume() -> None:
    templates = {claim["metadata"]["name"] for claim in STATEFUL_SET["volumeClaimTemplates"]}
    volumes = {volume["name"] for volume in POD["volumes"]}

    assert {mount["name"] for mount in NODE["volumeMounts"]} == volumes | templates


def test_services_and_budget_select_the_pods_of_the_nodes() -> None:
    selectors = [
        STATEFUL_SET["selector"]["matchLabels"],
        MANIFESTS["PodDisruptionBudget/headrace"]["spec"]["selector"]["matchLabels"],
        MANIFESTS["Service/headrace"]["spec"]["selector"],
        MANIFESTS["Service/headrace-nodes"]["spec"]["selector"],
    ]
    ports = {port["name"] for port in NODE["ports"]}
    targets = {
        port["targetPort"]
        for name in ("Service/headrace", "Service/headrace-nodes")
        for port in MANIFESTS[name]["spec"]["ports"]
    }
    probes = {NODE[f"{kind}Probe"]["httpGet"]["port"] for kind in ("readiness", "liveness")}

    assert selectors == [LABELS] * 4
    assert targets | probes == ports


def test_the_node_understands_its_settings(settings: Settings) -> None:
    ports = [port["containerPort"] for port in NODE["ports"]]
    service = MANIFESTS["Service/headrace-nodes"]["spec"]

    _check_tls(settings)
    assert find_unshared(settings) == {}
    assert ports == [settings.http.port] == [port["port"] for port in service["ports"]]
    assert (
        settings.http.advertise
        == f"http://headrace-0.{STATEFUL_SET['serviceName']}.{NAMESPACE}.svc:{ports[0]}"
    )
    assert service["publishNotReadyAddresses"] is True


def test_clients_reach_a_node_by_the_name_of_the_service(settings: Settings) -> None:
    assert settings.http.advertise is not None
    hosts = AllowedHosts(
        address=settings.http.advertise,
        host=settings.http.host,
        names=settings.http.allowed_hosts,
    )
    arrived_at = ("10.0.0.7", settings.http.port)

    assert hosts.contains(HostAndPort(f"headrace.{NAMESPACE}.svc", None), arrived_at)
    # The kubelet names the address of the pod.
    assert hosts.contains(HostAndPort("10.0.0.7", settings.http.port), arrived_at)


def test_a_pod_has_time_to_drain_and_no_outage_of_the_store_restarts_it(
    settings: Settings,
) -> None:
    drain = settings.cluster.drain_timeout.total_seconds()

    assert POD["terminationGracePeriodSeconds"] > drain + _SHUTDOWN_SECONDS
    assert "lifecycle" not in NODE
    assert NODE["readinessProbe"]["httpGet"]["path"] == "/ready"
    assert NODE["livenessProbe"]["httpGet"]["path"] == "/health"


def test_the_home_and_with_it_the_id_of_a_node_survives_its_pod(settings: Settings) -> None:
    templates = [claim["metadata"]["name"] for claim in STATEFUL_SET["volumeClaimTemplates"]]
    mounts = {mount["name"]: mount["mountPath"] for mount in NODE["volumeMounts"]}

    assert [settings.layout.node_id_file.is_relative_to(mounts[name]) for name in templates] == [
        True
    ]


def test_drivers_are_pods_that_share_the_volume_of_the_nodes(settings: Settings) -> None:
    profile = SparkSubmitProfile.of(settings.profile("default"))
    path = "spark.kubernetes.{}.volumes.persistentVolumeClaim.shared.{}"
    claims = {
        profile.conf[path.format(role, "options.claimName")] for role in ("driver", "executor")
    }
    mounts = {profile.conf[path.format(role, "mount.path")] for role in ("driver", "executor")}

    assert profile.deploy_mode == "cluster"
    assert {f"PersistentVolumeClaim/{claim}" for claim in claims} <= set(MANIFESTS)
    assert mounts == {"/shared"} == {str(shared) for shared in settings.cluster.shared_paths}
    assert profile.conf["spark.kubernetes.namespace"] == NAMESPACE
    account = profile.conf["spark.kubernetes.authenticate.driver.serviceAccountName"]
    assert f"ServiceAccount/{account}" in MANIFESTS


def test_secrets_come_from_one_secret_only() -> None:
    texts = "".join(file.read_text() for file in FOLDER.glob("*.yaml"))

    assert [source["secretRef"]["name"] for source in NODE["envFrom"]] == ["headrace"]
    assert "kind: Secret" not in texts
    assert {variable["name"] for variable in NODE["env"]}.isdisjoint(
        {"HEADRACE_TOKEN", "PGPASSWORD"}
    )
