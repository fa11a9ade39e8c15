"""Tests of the launchers that a node has, and of their registry."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from tests.support.launches import make_host

from headrace.config.profiles import BACKENDS, Profile
from headrace.config.sections import CatalogSettings
from headrace.config.settings import Settings
from headrace.control.host.process_identity import this_host
from headrace.control.launchers.base import LauncherHost
from headrace.control.launchers.local import LocalLauncher
from headrace.control.launchers.registry import LauncherRegistry, build_launchers
from headrace.errors import DriverOnOtherHost, InvalidSetting, LaunchFailed

EMR_PROFILE = {
    "backend": "emr-serverless",
    "application_id": "00f1",
    "execution_role_arn": "arn:x",
}
S3_RESULTS = {"location": "s3://bucket/results"}
BUILT_IN = [name for name, profile in BACKENDS.items() if profile.library is None]


def backends(tmp_path: Path, **changes: Any) -> list[str]:
    """Return the backends of a node with these settings."""
    settings = Settings(home=tmp_path, catalog=CatalogSettings(kind="memory"), **changes)
    host = LauncherHost.of_settings(settings)
    launchers = build_launchers(settings, host, LocalLauncher(host))
    return [launcher.backend for launcher in launchers]


def test_a_node_has_the_built_in_backends_and_those_of_its_profiles(tmp_path: Path) -> None:
    assert BUILT_IN[:2] == ["local", "spark-submit"]
    assert backends(tmp_path) == BUILT_IN
    profiles = {"big": EMR_PROFILE, "bigger": EMR_PROFILE, "small": {}}
    found = backends(tmp_path, profiles=profiles, results=S3_RESULTS)
    assert found == [*BUILT_IN, "emr-serverless"]


def test_an_emr_profile_needs_boto3_on_the_node(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "boto3", None)
    assert backends(tmp_path) == BUILT_IN
    with pytest.raises(InvalidSetting, match=r"'profiles\.big\.backend'.*pip install .*\[emr\]"):
        backends(tmp_path, profiles={"big": EMR_PROFILE}, results=S3_RESULTS)


def test_an_emr_profile_needs_a_results_location_that_is_not_a_local_path(tmp_path: Path) -> None:
    with pytest.raises(InvalidSetting, match=r"results\.location.*s3://bucket/results\."):
        backends(tmp_path, profiles={"big": EMR_PROFILE})


def test_every_call_to_a_backend_is_counted(tmp_path: Path) -> None:
    metrics = CollectorRegistry()
    registry = LauncherRegistry([LocalLauncher(make_host(tmp_path))], metrics)

    def calls(operation: str) -> float | None:
        labels = {"backend": "local", "op": operation}
        return metrics.get_sample_value("headrace_backend_calls_total", labels)

    assert calls("find") == 0
    assert registry.find("headrace-se_1-1", Profile()) is None
    assert calls("find") == 1
    assert calls("poll") == 0


def test_a_backend_without_a_launcher_is_refused_with_the_backends_of_the_node(
    tmp_path: Path,
) -> None:
    registry = LauncherRegistry([LocalLauncher(make_host(tmp_path))], CollectorRegistry())
    with pytest.raises(LaunchFailed, match=r"'spark-submit'\. Its backends: local\."):
        registry.poll({"backend": "spark-submit"})


@pytest.mark.finding("B4")
def test_a_driver_without_a_handle_cannot_be_found_from_another_host(tmp_path: Path) -> None:
    registry = LauncherRegistry([LocalLauncher(make_host(tmp_path))], CollectorRegistry())
    here = this_host().to_record()
    assert registry.find("headrace-se_1-1", Profile(), here) is None
    for elsewhere in ({"machine": "m"}, {"boot": "b"}, {"pid_namespace": "pid:[1]"}):
        with pytest.raises(DriverOnOtherHost):
            registry.find("headrace-se_1-1", Profile(), {**here, **elsewhere})
    # Host names may repeat, and do not identify a host.
    assert registry.find("headrace-se_1-1", Profile(), {**here, "name": "other"}) is None
