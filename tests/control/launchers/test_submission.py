"""What spark-submit is given. No Kubernetes can be had here: this is all that is seen of it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.launches import SECRET, program, request

from headrace.control.launchers.base import LaunchRequest
from headrace.control.launchers.cluster_managers import stop_application
from headrace.control.launchers.driver_package import build_driver_package
from headrace.control.launchers.kubernetes import Kubernetes
from headrace.control.launchers.spark_submit_command import (
    command,
    conf,
    properties_text,
    spark_home,
)
from headrace.errors import BackendUnreachable, LaunchFailed
from headrace.settings import Profile

KUBERNETES = Profile(
    backend="spark-submit",
    master="k8s://https://cluster.example:6443",
    deploy_mode="cluster",
    python="/opt/python/bin/python",
    conf={
        "spark.kubernetes.container.image": "example/spark:4.1",
        "spark.kubernetes.namespace": "sql",
    },
)


def given(asked: LaunchRequest, folder: Path) -> list[str]:
    return command(
        asked, folder / "properties", build_driver_package(folder), ["--handoff", "s3://b/once"]
    )


def test_a_driver_pod_has_name_label_namespace_and_image(tmp_path: Path) -> None:
    asked = request(tmp_path, KUBERNETES)
    found = conf(asked)
    assert found["spark.kubernetes.driver.pod.name"] == asked.name.replace("_", "-")
    assert found["spark.kubernetes.driver.label.headrace-launch"] == asked.name
    assert found["spark.kubernetes.namespace"] == "sql"
    assert found["spark.kubernetes.container.image"] == "example/spark:4.1"
    assert found["spark.kubernetes.submission.waitAppCompletion"] == "false"
    assert found["spark.pyspark.python"] == "/opt/python/bin/python"


def test_the_command_of_cluster_mode_takes_the_package_along_and_no_secret(tmp_path: Path) -> None:
    asked = request(tmp_path, KUBERNETES)
    asked.bootstrap.conf["spark.submit.pyFiles"] = "s3://b/theirs.py"
    words = given(asked, tmp_path)
    assert words[0] == str(spark_home(KUBERNETES) / "bin" / "spark-submit")
    pairs = dict(zip(words[1::2], words[2::2], strict=False))
    assert pairs["--master"] == "k8s://https://cluster.example:6443"
    assert pairs["--deploy-mode"] == "cluster"
    assert words[-2:] == ["--handoff", "s3://b/once"]
    assert words[words.index("--py-files") + 1].endswith("/headrace.zip,s3://b/theirs.py")
    assert SECRET not in " ".join(words)
    assert f"spark.hadoop.fs.s3a.secret.key={SECRET}\n" in properties_text(conf(asked))


def test_a_session_cannot_move_its_driver_to_another_namespace(tmp_path: Path) -> None:
    asked = request(tmp_path, KUBERNETES)
    asked.bootstrap.conf["spark.kubernetes.namespace"] = "elsewhere"
    assert conf(asked)["spark.kubernetes.namespace"] == "sql"


def test_the_package_travels_whole(tmp_path: Path) -> None:
    """The driver starts from the zip alone."""
    parcel = build_driver_package(tmp_path)
    assert build_driver_package(tmp_path) == parcel
    program = f"import sys; sys.path.insert(0, {str(parcel.package)!r}); import headrace.driver"
    found = subprocess.run(
        [sys.executable, "-I", "-c", f"{program}; print(headrace.__file__)"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert found.stdout.startswith(str(parcel.package))


def test_spark_of_the_profile_is_taken(tmp_path: Path) -> None:
    profile = Profile(backend="spark-submit", env={"SPARK_HOME": "/opt/spark"})
    assert given(request(tmp_path, profile), tmp_path)[0] == "/opt/spark/bin/spark-submit"


def kubernetes(folder: Path, *lines: str) -> Kubernetes:
    """Asked through a program that says what Spark's source has spark-submit say."""
    submit = Path(program(folder / "spark-submit", *lines))
    return Kubernetes(submit, "k8s://https://cluster.example", "sql", {})


def test_a_pod_is_asked_for_by_name_until_it_is_gone(tmp_path: Path) -> None:
    """`--status` and `--kill` take `namespace:pod`."""
    told = "Application status (driver): \\n\\t pod name: headrace-se-1-1\\n\\t phase: Running"
    cluster = kubernetes(
        tmp_path,
        f"gone = {str(tmp_path / 'gone')!r}",
        "assert sys.argv[1:3] == ['--master', 'k8s://https://cluster.example']",
        "assert sys.argv[4] == 'sql:headrace-se-1-1', sys.argv",
        "if sys.argv[3] == '--kill': open(gone, 'w').close()",
        f"elif not os.path.exists(gone): print('{told}')",
        "else: print('Application not found.')",
    )
    found = cluster.find("headrace-se_1-1")
    assert found is not None
    assert (found.alive, found.words) == (True, "Running")
    stop_application(cluster, "headrace-se_1-1")
    assert cluster.find("headrace-se_1-1") is None


def test_what_kubernetes_does_not_answer_is_unknown(tmp_path: Path) -> None:
    cluster = kubernetes(tmp_path, "print('connect timed out'); sys.exit(1)")
    with pytest.raises(BackendUnreachable, match="connect timed out"):
        cluster.find("headrace-se_1-1")
    missing = Kubernetes(tmp_path / "none", "k8s://https://cluster.example", "sql", {})
    with pytest.raises(BackendUnreachable, match="does not answer"):
        missing.find("headrace-se_1-1")


def test_without_spark_the_launcher_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    with pytest.raises(LaunchFailed) as raised:
        spark_home(Profile(backend="spark-submit"))
    assert "headrace[spark]" in str(raised.value.hint)
