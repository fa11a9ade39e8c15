"""Tests of the launcher `emr-serverless`, against moto, which records job runs but runs none."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fsspec.core import url_to_fs
from moto.core.exceptions import JsonRESTError
from moto.emrserverless import models
from tests.support.aws import REGION, ROLE, Aws
from tests.support.launches import make_host
from tests.support.ports import reserved_port

from headrace.config.profiles import parse_profile
from headrace.control.launchers import emr_serverless
from headrace.control.launchers.base import LaunchRequest
from headrace.control.launchers.emr_serverless import EmrServerlessLauncher
from headrace.driver.process import read_handoff
from headrace.errors import BackendUnreachable, LaunchFailed
from headrace.model.messages import Bootstrap

TOKEN = "the-secret-token"


@pytest.fixture(scope="module")
def launcher(tmp_path_factory: pytest.TempPathFactory) -> EmrServerlessLauncher:
    return make_launcher(tmp_path_factory.mktemp("node"))


@pytest.fixture
def launch(aws: Aws, tmp_path: Path) -> LaunchRequest:
    return make_request(aws, tmp_path)


def make_launcher(home: Path) -> EmrServerlessLauncher:
    return EmrServerlessLauncher(make_host(home))


def make_request(aws: Aws, tmp_path: Path, *, epoch: int = 1, **profile: Any) -> LaunchRequest:
    """Return a launch on the application of the account."""
    return LaunchRequest(
        name=f"headrace-se_1-{epoch}",
        bootstrap=make_bootstrap(aws, epoch),
        profile=parse_profile(aws.profile(**profile)),
        log=tmp_path / "logs" / "se_1.log",
    )


def make_bootstrap(aws: Aws, epoch: int) -> Bootstrap:
    fields = {
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
    return Bootstrap.model_validate(fields)


def exists(location: str) -> bool:
    system, path = url_to_fs(location)
    system.invalidate_cache()
    return bool(system.exists(path))


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
    assert [job_run["state"] for job_run in aws.job_runs()] == ["CANCELLED"]
    status = launcher.poll(handle)
    assert (status.alive, status.message) == (False, "CANCELLED")
    launcher.kill(handle)


def test_the_token_is_not_an_argument_and_the_bootstrap_can_be_read_only_once(
    launcher: EmrServerlessLauncher, aws: Aws, launch: LaunchRequest
) -> None:
    handle = launcher.start(launch)
    [run] = aws.job_runs()
    assert TOKEN not in str(run)
    submit = run["jobDriver"]["sparkSubmit"]
    assert submit["entryPointArguments"] == ["--handoff", handle["bootstrap"]]
    assert exists(handle["bootstrap"])
    bootstrap, token = read_handoff(handle["bootstrap"])
    assert (bootstrap.session_id, bootstrap.epoch, token) == ("se_1", 1, TOKEN)
    assert not exists(handle["bootstrap"])
    with pytest.raises(FileNotFoundError):
        read_handoff(handle["bootstrap"])


def test_a_kill_deletes_an_unread_bootstrap(
    launcher: EmrServerlessLauncher, launch: LaunchRequest
) -> None:
    handle = launcher.start(launch)
    launcher.kill(handle)
    assert not exists(handle["bootstrap"])


def test_another_node_finds_a_driver_by_its_name(
    launcher: EmrServerlessLauncher, aws: Aws, tmp_path: Path, launch: LaunchRequest
) -> None:
    assert launcher.find(launch.name, launch.profile) is None
    handle = launcher.start(launch)
    # More than one page of newer job runs.
    for number in range(60):
        aws.start(f"{launch.name}{number}")
    other_node = make_launcher(tmp_path)
    assert other_node.find(launch.name, launch.profile) == handle
    assert other_node.find("headrace-se_1-2", launch.profile) is None
    launcher.kill(handle)
    assert other_node.find(launch.name, launch.profile) is None


def test_the_newest_of_several_job_runs_with_one_name_is_found(
    launcher: EmrServerlessLauncher, aws: Aws, launch: LaunchRequest
) -> None:
    run_ids = {days: aws.start(launch.name, days_old=days) for days in (2, 1, 3)}
    handle = launcher.find(launch.name, launch.profile)
    assert handle is not None
    assert handle["job_run_id"] == run_ids[1]


def test_a_repeated_start_returns_the_existing_job_run(
    launcher: EmrServerlessLauncher, aws: Aws, launch: LaunchRequest
) -> None:
    handle = launcher.start(launch)
    assert launcher.start(launch) == handle
    assert len(aws.job_runs()) == 1
    assert exists(handle["bootstrap"])


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
def test_a_poll_returns_the_state_and_details_of_aws(
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
    assert status.message == (f"{state}: {details}" if details else state)
    assert (launcher.find(launch.name, launch.profile) == handle) is alive


def test_a_job_run_that_aws_does_not_know_counts_as_ended(
    launcher: EmrServerlessLauncher, launch: LaunchRequest
) -> None:
    handle = {**launcher.start(launch), "job_run_id": "00unknown"}
    status = launcher.poll(handle)
    assert not status.alive
    assert "ResourceNotFoundException" in status.message
    launcher.kill(handle)


def test_a_kill_fails_if_the_job_run_does_not_end(
    launcher: EmrServerlessLauncher,
    aws: Aws,
    launch: LaunchRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    handle = launcher.start(launch)
    monkeypatch.setattr(emr_serverless, "_CANCEL_SECONDS", 0.1)
    monkeypatch.setattr(emr_serverless, "_POLL_SECONDS", 0.05)

    def stay_cancelling(_self: object, application_id: str, job_run_id: str) -> tuple[str, str]:
        aws.set_state(job_run_id, "CANCELLING", "its workers are being stopped")
        return application_id, job_run_id

    monkeypatch.setattr(models.EMRServerlessBackend, "cancel_job_run", stay_cancelling)
    with pytest.raises(LaunchFailed, match=r"not ended job run .*CANCELLING: its workers"):
        launcher.kill(handle)


def test_a_refused_cancel_has_the_message_of_aws(
    launcher: EmrServerlessLauncher, launch: LaunchRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    handle = launcher.start(launch)

    def refuse(_self: object, application_id: str, job_run_id: str) -> tuple[str, str]:
        raise models.AccessDeniedException("not you")

    monkeypatch.setattr(models.EMRServerlessBackend, "cancel_job_run", refuse)
    with pytest.raises(LaunchFailed, match="CancelJobRun: AccessDeniedException: not you"):
        launcher.kill(handle)


def test_a_refused_start_has_the_message_of_aws_and_leaves_no_token(
    launcher: EmrServerlessLauncher, aws: Aws, tmp_path: Path
) -> None:
    other_account = make_request(
        aws, tmp_path, execution_role_arn=ROLE.replace("123456789012", "1" * 12)
    )
    with pytest.raises(LaunchFailed, match="AccessDeniedException: Cross-account pass role"):
        launcher.start(other_account)
    unknown_application = make_request(aws, tmp_path, application_id="00unknown")
    with pytest.raises(LaunchFailed, match=r"ResourceNotFoundException: .*00unknown"):
        launcher.start(unknown_application)
    system, path = url_to_fs(aws.results)
    system.invalidate_cache()
    assert not [name for name in system.find(path) if "/handoff/" in name]


def test_a_kill_succeeds_if_the_job_run_ends_before_the_cancel(
    launcher: EmrServerlessLauncher,
    aws: Aws,
    launch: LaunchRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    handle = launcher.start(launch)

    def end_and_refuse(_self: object, application_id: str, job_run_id: str) -> tuple[str, str]:
        aws.set_state(job_run_id, "SUCCESS")
        raise models.ValidationException("the job run has ended")

    monkeypatch.setattr(models.EMRServerlessBackend, "cancel_job_run", end_and_refuse)
    launcher.kill(handle)
    assert launcher.poll(handle).message == "SUCCESS"


def test_expired_credentials_count_as_unreachable(
    launcher: EmrServerlessLauncher,
    aws: Aws,
    launch: LaunchRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    handle = launcher.start(launch)

    def reject_token(*_arguments: object, **_options: object) -> None:
        raise JsonRESTError("ExpiredTokenException", "the security token has expired")

    monkeypatch.setattr(models.EMRServerlessBackend, "list_job_runs", reject_token)
    monkeypatch.setattr(models.EMRServerlessBackend, "get_job_run", reject_token)
    for call in (
        lambda: launcher.start(launch),
        lambda: launcher.find(launch.name, launch.profile),
        lambda: launcher.poll(handle),
        lambda: launcher.kill(handle),
    ):
        with pytest.raises(BackendUnreachable, match="ExpiredTokenException: the security token"):
            call()


def test_a_missing_region_is_reported(
    aws: Aws, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AWS_DEFAULT_REGION")
    with pytest.raises(LaunchFailed, match="You must specify a region"):
        make_launcher(tmp_path).start(make_request(aws, tmp_path, region=None))


@pytest.fixture
def closed_port() -> Iterator[int]:
    """Reserve a port at which no process listens."""
    with reserved_port() as port:
        yield port


def test_every_call_reports_an_unreachable_service(
    launcher: EmrServerlessLauncher,
    aws: Aws,
    tmp_path: Path,
    launch: LaunchRequest,
    closed_port: int,
) -> None:
    address = f"http://127.0.0.1:{closed_port}"
    handle = {**launcher.start(launch), "endpoint_url": address}
    second = make_request(aws, tmp_path, epoch=2, endpoint_url=address)
    with pytest.raises(BackendUnreachable, match=address):
        launcher.start(second)
    with pytest.raises(BackendUnreachable, match=address):
        launcher.find(second.name, second.profile)
    with pytest.raises(BackendUnreachable, match=address):
        launcher.poll(handle)
    with pytest.raises(BackendUnreachable, match=address):
        launcher.kill(handle)


def test_missing_credentials_count_as_unreachable(
    tmp_path: Path, launch: LaunchRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    with pytest.raises(BackendUnreachable, match="Unable to locate credentials"):
        make_launcher(tmp_path).find(launch.name, launch.profile)


def test_the_log_is_in_the_location_of_the_profile_or_shown_by_a_command_of_aws(
    launcher: EmrServerlessLauncher, aws: Aws, tmp_path: Path, launch: LaunchRequest
) -> None:
    default = launcher.start(launch)
    run_id, application_id = default["job_run_id"], aws.application_id
    assert default["log"] == (
        "aws emr-serverless get-dashboard-for-job-run"
        f" --application-id {application_id} --job-run-id {run_id}"
    )
    in_s3 = launcher.start(make_request(aws, tmp_path, epoch=2, log_uri="s3://logs/headrace/"))
    run = aws.job_runs()[1]
    monitoring = run["configurationOverrides"]["monitoringConfiguration"]
    assert monitoring == {"s3MonitoringConfiguration": {"logUri": "s3://logs/headrace/"}}
    folder = f"applications/{application_id}/jobs/{in_s3['job_run_id']}/SPARK_DRIVER/"
    assert launcher.poll(in_s3).log == in_s3["log"]
    assert in_s3["log"] == f"s3://logs/headrace/{folder}"
    # `headrace session log` shows this file.
    lines = launch.log.read_text().splitlines()
    assert [line.rpartition("Its log: ")[2] for line in lines] == [default["log"], in_s3["log"]]


def test_each_region_has_its_own_client(
    launcher: EmrServerlessLauncher, aws: Aws, tmp_path: Path, launch: LaunchRequest
) -> None:
    handle = launcher.start(launch)
    assert handle["region"] == REGION
    assert not launcher.poll({**handle, "region": "us-west-2"}).alive
    assert launcher.poll(handle).alive
