"""The launcher of EMR Serverless, against moto's: it keeps job runs, and runs none."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fsspec.core import url_to_fs
from moto.core.exceptions import JsonRESTError
from moto.emrserverless import models
from tests.support.aws import REGION, ROLE, Aws

from headrace.control.launchers import emr_serverless
from headrace.control.launchers.base import LaunchRequest
from headrace.control.launchers.emr_serverless import EmrServerlessLauncher
from headrace.driver.bootstrap import read_handoff
from headrace.errors import BackendUnreachable, LaunchFailed
from headrace.model.messages import Bootstrap
from headrace.settings import Profile

TOKEN = "the-secret-token"


@pytest.fixture(scope="module")
def launcher(tmp_path_factory: pytest.TempPathFactory) -> EmrServerlessLauncher:
    return EmrServerlessLauncher(tmp_path_factory.mktemp("node"))


@pytest.fixture
def launch(aws: Aws, tmp_path: Path) -> LaunchRequest:
    return request(aws, tmp_path)


def request(aws: Aws, tmp_path: Path, *, epoch: int = 1, **profile: Any) -> LaunchRequest:
    """A launch on this application."""
    return LaunchRequest(
        name=f"headrace-se_1-{epoch}",
        bootstrap=bootstrap(aws, epoch),
        profile=Profile(**aws.profile(**profile)),
        log=tmp_path / "logs" / "se_1.log",
    )


def bootstrap(aws: Aws, epoch: int, **changes: Any) -> Bootstrap:
    known = {
        "session_id": "se_1",
        "epoch": epoch,
        "token": TOKEN,
        "nodes": ["http://127.0.0.1:1"],
        "conf": {"spark.master": "local[*]", "spark.ui.port": "0", "spark.app.name": "x"},
        "results": aws.results,
        "inline_limit": 1,
        "chunk_limit": 1,
        "lease_seconds": 1,
        "renew_seconds": 1,
        "orphan_seconds": 1,
    }
    return Bootstrap.model_validate({**known, **changes})


def there(place: str) -> bool:
    system, inner = url_to_fs(place)
    system.invalidate_cache()
    return bool(system.exists(inner))


def test_a_driver_is_started_polled_and_killed(
    launcher: EmrServerlessLauncher, aws: Aws, launch: LaunchRequest
) -> None:
    handle = launcher.start(launch)
    [run] = aws.job_runs()
    assert handle["backend"] == "emr-serverless"
    assert (handle["application_id"], handle["job_run_id"]) == (aws.application_id, run["jobRunId"])
    assert run["name"] == launch.name
    assert run["executionRole"] == ROLE
    assert launcher.poll(handle).alive
    assert launcher.exits() == []
    launcher.announce(["http://127.0.0.1:2"])
    launcher.kill(handle)
    assert [one["state"] for one in aws.job_runs()] == ["CANCELLED"]
    gone = launcher.poll(handle)
    assert (gone.alive, gone.words) == (False, "CANCELLED")
    launcher.kill(handle)


def test_the_token_is_no_argument_and_the_bootstrap_of_one_use(
    launcher: EmrServerlessLauncher, aws: Aws, launch: LaunchRequest
) -> None:
    handle = launcher.start(launch)
    [run] = aws.job_runs()
    assert TOKEN not in str(run)
    submit = run["jobDriver"]["sparkSubmit"]
    assert submit["entryPointArguments"] == ["--handoff", handle["bootstrap"]]
    assert there(handle["bootstrap"])
    known, token = read_handoff(handle["bootstrap"])
    assert (known.session_id, known.epoch, token) == ("se_1", 1, TOKEN)
    assert not there(handle["bootstrap"])
    with pytest.raises(FileNotFoundError):
        read_handoff(handle["bootstrap"])


def test_a_bootstrap_that_no_driver_took_goes_with_the_kill(
    launcher: EmrServerlessLauncher, launch: LaunchRequest
) -> None:
    handle = launcher.start(launch)
    launcher.kill(handle)
    assert not there(handle["bootstrap"])


def test_the_driver_is_found_by_its_name(
    launcher: EmrServerlessLauncher, aws: Aws, tmp_path: Path, launch: LaunchRequest
) -> None:
    assert launcher.find(launch.name, launch.profile) is None
    handle = launcher.start(launch)
    # More than a page of newer ones.
    for number in range(60):
        aws.start(f"{launch.name}{number}")
    # A node that knows nothing of it but the name.
    another = EmrServerlessLauncher(tmp_path)
    assert another.find(launch.name, launch.profile) == handle
    assert another.find("headrace-se_1-2", launch.profile) is None
    launcher.kill(handle)
    assert another.find(launch.name, launch.profile) is None


def test_of_several_runs_of_one_name_the_newest_is_found(
    launcher: EmrServerlessLauncher, aws: Aws, launch: LaunchRequest
) -> None:
    ages = {days: aws.start(launch.name, days_old=days) for days in (2, 1, 3)}
    found = launcher.find(launch.name, launch.profile)
    assert found is not None
    assert found["job_run_id"] == ages[1]


def test_a_repeated_start_finds_what_is_there(
    launcher: EmrServerlessLauncher, aws: Aws, launch: LaunchRequest
) -> None:
    handle = launcher.start(launch)
    assert launcher.start(launch) == handle
    assert len(aws.job_runs()) == 1
    assert there(handle["bootstrap"])


@pytest.mark.parametrize(
    ("state", "details", "alive"),
    [
        ("SUBMITTED", "", True),
        ("QUEUED", "", True),
        ("PENDING", "waiting for capacity", True),
        ("SCHEDULED", "", True),
        ("RUNNING", "", True),
        ("CANCELLING", "", True),
        ("SUCCESS", "", False),
        ("FAILED", "Job failed, please check complete logs", False),
        ("CANCELLED", "", False),
    ],
)
def test_a_poll_has_the_words_of_aws(
    launcher: EmrServerlessLauncher,
    aws: Aws,
    launch: LaunchRequest,
    state: str,
    details: str,
    alive: bool,
) -> None:
    handle = launcher.start(launch)
    aws.set_state(handle["job_run_id"], state, details)
    status = launcher.poll(handle)
    assert status.alive is alive
    assert status.words == (f"{state}: {details}" if details else state)
    assert (launcher.find(launch.name, launch.profile) == handle) is alive


def test_what_aws_has_forgotten_is_gone(
    launcher: EmrServerlessLauncher, launch: LaunchRequest
) -> None:
    handle = {**launcher.start(launch), "job_run_id": "00unknown"}
    status = launcher.poll(handle)
    assert not status.alive
    assert "ResourceNotFoundException" in status.words
    launcher.kill(handle)


def test_a_run_that_does_not_end_is_no_success(
    launcher: EmrServerlessLauncher,
    aws: Aws,
    launch: LaunchRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    handle = launcher.start(launch)
    monkeypatch.setattr(emr_serverless, "_CANCEL_SECONDS", 0.1)
    monkeypatch.setattr(emr_serverless, "_LOOK_SECONDS", 0.05)

    def cancelling(_self: object, application_id: str, job_run_id: str) -> tuple[str, str]:
        aws.set_state(job_run_id, "CANCELLING", "its workers are being stopped")
        return application_id, job_run_id

    monkeypatch.setattr(models.EMRServerlessBackend, "cancel_job_run", cancelling)
    with pytest.raises(LaunchFailed, match=r"not ended job run .*CANCELLING: its workers"):
        launcher.kill(handle)


def test_a_refused_cancel_has_the_words_of_aws(
    launcher: EmrServerlessLauncher, launch: LaunchRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    handle = launcher.start(launch)

    def refused(_self: object, application_id: str, job_run_id: str) -> tuple[str, str]:
        raise models.AccessDeniedException("not you")

    monkeypatch.setattr(models.EMRServerlessBackend, "cancel_job_run", refused)
    with pytest.raises(LaunchFailed, match="CancelJobRun: AccessDeniedException: not you"):
        launcher.kill(handle)


def test_a_refused_start_has_the_words_of_aws_and_leaves_no_token(
    launcher: EmrServerlessLauncher, aws: Aws, tmp_path: Path
) -> None:
    foreign = request(aws, tmp_path, execution_role_arn=ROLE.replace("123456789012", "1" * 12))
    with pytest.raises(LaunchFailed, match="AccessDeniedException: Cross-account pass role"):
        launcher.start(foreign)
    unknown = request(aws, tmp_path, application_id="00unknown")
    with pytest.raises(LaunchFailed, match=r"ResourceNotFoundException: .*00unknown"):
        launcher.start(unknown)
    system, inner = url_to_fs(aws.results)
    system.invalidate_cache()
    assert not [found for found in system.find(inner) if "/handover/" in found]


def test_a_run_that_ended_before_its_cancel_came_is_gone(
    launcher: EmrServerlessLauncher,
    aws: Aws,
    launch: LaunchRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    handle = launcher.start(launch)

    def too_late(_self: object, application_id: str, job_run_id: str) -> tuple[str, str]:
        aws.set_state(job_run_id, "SUCCESS")
        raise models.ValidationException("the job run has ended")

    monkeypatch.setattr(models.EMRServerlessBackend, "cancel_job_run", too_late)
    launcher.kill(handle)
    assert launcher.poll(handle).words == "SUCCESS"


def test_credentials_that_have_expired_are_no_answer(
    launcher: EmrServerlessLauncher,
    aws: Aws,
    launch: LaunchRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    handle = launcher.start(launch)

    def expired(*_arguments: object, **_options: object) -> None:
        raise JsonRESTError("ExpiredTokenException", "the security token has expired")

    monkeypatch.setattr(models.EMRServerlessBackend, "list_job_runs", expired)
    monkeypatch.setattr(models.EMRServerlessBackend, "get_job_run", expired)
    for call in (
        lambda: launcher.start(launch),
        lambda: launcher.find(launch.name, launch.profile),
        lambda: launcher.poll(handle),
        lambda: launcher.kill(handle),
    ):
        with pytest.raises(BackendUnreachable, match="ExpiredTokenException: the security token"):
            call()


def test_a_region_that_nobody_names_is_asked_for(
    aws: Aws, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AWS_DEFAULT_REGION")
    with pytest.raises(LaunchFailed, match="You must specify a region"):
        EmrServerlessLauncher(tmp_path).start(request(aws, tmp_path, region=None))


@pytest.fixture
def closed_port() -> Iterator[int]:
    """A port at which nobody listens, kept from others."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield taken.getsockname()[1]


def test_a_service_out_of_reach_is_no_answer(
    launcher: EmrServerlessLauncher,
    aws: Aws,
    tmp_path: Path,
    launch: LaunchRequest,
    closed_port: int,
) -> None:
    nowhere = f"http://127.0.0.1:{closed_port}"
    handle = {**launcher.start(launch), "endpoint_url": nowhere}
    lost = request(aws, tmp_path, epoch=2, endpoint_url=nowhere)
    with pytest.raises(BackendUnreachable, match=nowhere):
        launcher.start(lost)
    with pytest.raises(BackendUnreachable, match=nowhere):
        launcher.find(lost.name, lost.profile)
    with pytest.raises(BackendUnreachable, match=nowhere):
        launcher.poll(handle)
    with pytest.raises(BackendUnreachable, match=nowhere):
        launcher.kill(handle)


def test_without_credentials_nothing_is_known(
    tmp_path: Path, launch: LaunchRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    with pytest.raises(BackendUnreachable, match="Unable to locate credentials"):
        EmrServerlessLauncher(tmp_path).find(launch.name, launch.profile)


def test_the_log_is_where_the_profile_says_or_with_aws(
    launcher: EmrServerlessLauncher, aws: Aws, tmp_path: Path, launch: LaunchRequest
) -> None:
    kept = launcher.start(launch)
    run_id, application_id = kept["job_run_id"], aws.application_id
    assert kept["log"] == (
        "aws emr-serverless get-dashboard-for-job-run"
        f" --application-id {application_id} --job-run-id {run_id}"
    )
    sent = launcher.start(request(aws, tmp_path, epoch=2, log_uri="s3://logs/headrace/"))
    run = aws.job_runs()[1]
    monitoring = run["configurationOverrides"]["monitoringConfiguration"]
    assert monitoring == {"s3MonitoringConfiguration": {"logUri": "s3://logs/headrace/"}}
    place = f"applications/{application_id}/jobs/{sent['job_run_id']}/SPARK_DRIVER/"
    assert launcher.poll(sent).log == sent["log"]
    assert sent["log"] == f"s3://logs/headrace/{place}"
    # `headrace session log` shows this file.
    told = launch.log.read_text().splitlines()
    assert [line.rpartition("Its log: ")[2] for line in told] == [kept["log"], sent["log"]]


def test_regions_have_clients_of_their_own(
    launcher: EmrServerlessLauncher, aws: Aws, tmp_path: Path, launch: LaunchRequest
) -> None:
    handle = launcher.start(launch)
    assert handle["region"] == REGION
    assert not launcher.poll({**handle, "region": "us-west-2"}).alive
    assert launcher.poll(handle).alive
