"""What travels to a driver by the results location, with S3 as moto has it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from fsspec.core import url_to_fs
from tests.support.aws import Aws

from headrace.control.launchers.driver_package import build_driver_package
from headrace.control.launchers.remote_artifacts import upload_artifacts
from headrace.driver.bootstrap import read_handoff
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
    """All that lies in the results location."""
    system, inner = url_to_fs(aws.results)
    system.invalidate_cache()
    return [f"s3://{found}" for found in system.find(inner)]


def test_drivers_share_their_code_and_have_a_bootstrap_each(aws: Aws, tmp_path: Path) -> None:
    parcel = build_driver_package(tmp_path)
    first = upload_artifacts(parcel, bootstrap(aws.results), "headrace-se_1-1")
    second = upload_artifacts(parcel, bootstrap(aws.results), "headrace-se_1-1")
    assert (first.entry, first.package) == (second.entry, second.package)
    assert first.bootstrap != second.bootstrap
    expected = [first.entry, first.package, first.bootstrap, second.bootstrap]
    assert sorted(objects(aws)) == sorted(expected)


def test_a_bootstrap_is_read_once(aws: Aws, tmp_path: Path) -> None:
    sent = upload_artifacts(
        build_driver_package(tmp_path), bootstrap(aws.results), "headrace-se_1-1"
    )
    known, token = read_handoff(sent.bootstrap)
    assert token == "secret"
    assert known == bootstrap(aws.results).model_copy(update={"token": None})
    assert sorted(objects(aws)) == sorted([sent.entry, sent.package])
    with pytest.raises(FileNotFoundError):
        read_handoff(sent.bootstrap)


def test_a_bootstrap_that_cannot_be_deleted_is_not_taken(
    aws: Aws, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Users' SQL would find the token."""
    sent = upload_artifacts(
        build_driver_package(tmp_path), bootstrap(aws.results), "headrace-se_1-1"
    )
    system, _inner = url_to_fs(sent.bootstrap)

    def forbidden(*_arguments: object, **_options: object) -> None:
        raise PermissionError("AccessDenied")

    monkeypatch.setattr(system, "rm", forbidden)
    with pytest.raises(ResultsUnavailable, match=r"Cannot delete s3://.*: AccessDenied"):
        read_handoff(sent.bootstrap)


def test_a_location_that_cannot_be_written_is_named(aws: Aws, tmp_path: Path) -> None:
    nowhere = "s3://no-such-bucket-here/results"
    with pytest.raises(LaunchFailed, match=nowhere):
        upload_artifacts(build_driver_package(tmp_path), bootstrap(nowhere), "headrace-se_1-1")


def test_the_code_can_be_imported_from_what_was_sent(aws: Aws, tmp_path: Path) -> None:
    """With nothing of Headrace but the zip: a missing module would not be found elsewhere."""
    sent = upload_artifacts(
        build_driver_package(tmp_path), bootstrap(aws.results), "headrace-se_1-1"
    )
    system, _inner = url_to_fs(aws.results)
    archive = tmp_path / "fetched.zip"
    system.get_file(sent.package, str(archive))
    code = "import headrace.driver.__main__; print(headrace.driver.__main__.__file__)"
    run = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(archive)},
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout.strip() == str(archive / "headrace" / "driver" / "__main__.py")
    assert b"headrace.driver.__main__" in system.cat_file(sent.entry)
