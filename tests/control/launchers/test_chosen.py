"""Which launchers a node has."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from headrace.control.launchers.installed import launchers
from tests.support.running_node import settings_for

from headrace.errors import InvalidSetting

EMR = {"backend": "emr-serverless", "application_id": "00f1", "execution_role_arn": "arn:x"}
IN_S3 = {"location": "s3://bucket/results"}


def backends(tmp_path: Path, **changes: Any) -> list[str]:
    return [one.backend for one in launchers(settings_for(tmp_path, **changes))]


def test_a_node_has_what_its_profiles_ask_for(tmp_path: Path) -> None:
    assert backends(tmp_path) == ["local", "spark-submit"]
    asked = {"profiles": {"big": EMR, "bigger": EMR, "small": {}}, "results": IN_S3}
    assert backends(tmp_path, **asked) == ["local", "spark-submit", "emr-serverless"]


def test_a_node_without_boto3_says_so_where_a_profile_needs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "boto3", None)
    assert backends(tmp_path) == ["local", "spark-submit"]
    with pytest.raises(InvalidSetting, match=r"'profiles\.big\.backend'.*'headrace\[emr\]'"):
        backends(tmp_path, profiles={"big": EMR}, results=IN_S3)


def test_results_on_the_nodes_own_disk_are_no_place_for_drivers_elsewhere(tmp_path: Path) -> None:
    with pytest.raises(InvalidSetting, match=r"results\.location.*such as s3://"):
        backends(tmp_path, profiles={"big": EMR})
