"""Tests of the driver files in the results location, on the S3 of moto."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from fsspec.core import url_to_fs
from tests.support.aws import Aws

from headrace.control.launchers.remote_artifacts import build_driver_package, upload_artifacts
from headrace.driver.process import read_handoff
from headrace.errors import LaunchFailed, ResultsUnavailable
from headrace.model.messages import Bootstrap


def bootstrap(results: str) -> Bootstrap:
    return Bootstrap(
        session_id="se_1",
        epoch=1,
        token="secret",
        nodes=["http://127.0.0.1:1"],
        conf={"spark.app.name": "x"},
        results=results,
        inline_limit=1,
        chunk_limit=1,
        lease_seconds=1,
        renew_seconds=1,
        orphan_seconds=1,
    )


def objects(aws: Aws) -> list[str]:
    """Return the URIs of all objects in the results location."""
    system, path = url_to_fs(aws.results)
    system.invalidate_cache()
    return [f"s3://{name}" for name in system.find(path)]


def test_drivers_share_their_code_and_each_has_its_own_bootstrap(aws: Aws, tmp_path: Path) -> None:
    driver_package = build_driver_package(tmp_path)
    first = upload_artifacts(driver_package, bootstrap(aws.results), "headrace-se_1-1")
    second = upload_artifacts(driver_package, bootstrap(aws.results), "headrace-se_1-1")
    assert (first.entry, first.package) == (second.entry, second.package)
    assert first.bootstrap != second.bootstrap
    expected = [first.entry, first.package, first.bootstrap, second.bootstrap]
    assert sorted(objects(aws)) == sorted(expected)


def test_a_bootstrap_can_be_read_only_once(aws: Aws, tmp_path: Path) -> None:
    artifacts = upload_artifacts(
        build_driver_package(tmp_path), bootstrap(aws.results), "headrace-se_1-1"
    )
    received, token = read_handoff(artifacts.bootstrap)
    assert token == "secret"
    assert received == bootstrap(aws.results).model_copy(update={"token": None})
    assert sorted(objects(aws)) == sorted([artifacts.entry, artifacts.package])
    with pytest.raises(FileNotFoundError):
        read_handoff(artifacts.bootstrap)


def test_a_bootstrap_that_cannot_be_deleted_is_refused(
    aws: Aws, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Users' SQL could read the token of the remaining object."""
    artifacts = upload_artifacts(
        build_driver_package(tmp_path), bootstrap(aws.results), "headrace-se_1-1"
    )
    system, _path = url_to_fs(artifacts.bootstrap)

    def forbidden(*_arguments: object, **_options: object) -> None:
        raise PermissionError("AccessDenied")

    monkeypatch.setattr(system, "rm", forbidden)
    with pytest.raises(ResultsUnavailable, match=r"Cannot delete s3://.*: AccessDenied"):
        read_handoff(artifacts.bootstrap)


def test_an_error_names_the_location_that_cannot_be_written(aws: Aws, tmp_path: Path) -> None:
    missing = "s3://no-such-bucket-here/results"
    with pytest.raises(LaunchFailed, match=missing):
        upload_artifacts(build_driver_package(tmp_path), bootstrap(missing), "headrace-se_1-1")


def test_the_driver_can_be_imported_from_the_uploaded_zip(aws: Aws, tmp_path: Path) -> None:
    """PYTHONPATH has only the zip, so that a missing module is an error."""
    artifacts = upload_artifacts(
        build_driver_package(tmp_path), bootstrap(aws.results), "headrace-se_1-1"
    )
    system, _path = url_to_fs(aws.results)
    archive = tmp_path / "downloaded.zip"
    system.get_file(artifacts.package, str(archive))
    code = "import headrace.driver.__main__; print(headrace.driver.__main__.__file__)"
    completed = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(archive)},
    )
    assert completed.returncode == 0, completed.stderr
    assert completed.stdout.strip() == str(archive / "headrace" / "driver" / "__main__.py")
    assert b"headrace.driver.__main__" in system.cat_file(artifacts.entry)
