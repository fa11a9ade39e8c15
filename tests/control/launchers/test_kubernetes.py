"""Tests of the client of Kubernetes.

There is no Kubernetes here: a program prints what spark-submit prints according to Spark's source.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.launches import write_interpreter

from headrace.control.launchers.cluster_managers import Kubernetes, stop_application
from headrace.errors import BackendUnreachable

MASTER = "k8s://https://cluster.example"


def kubernetes(folder: Path, *lines: str) -> Kubernetes:
    """Return a client whose spark-submit runs these lines of Python."""
    spark_submit = Path(write_interpreter(folder / "spark-submit", *lines))
    return Kubernetes(spark_submit, MASTER, "sql", {})


def test_a_driver_pod_is_found_by_name_and_killed(tmp_path: Path) -> None:
    """`--status` and `--kill` take `namespace:pod`."""
    status = "Application status (driver): \\n\\t pod name: headrace-se-1-1\\n\\t phase: Running"
    cluster = kubernetes(
        tmp_path,
        f"killed = {str(tmp_path / 'killed')!r}",
        f"assert sys.argv[1:3] == ['--master', {MASTER!r}]",
        "assert sys.argv[4] == 'sql:headrace-se-1-1', sys.argv",
        "if sys.argv[3] == '--kill': open(killed, 'w').close()",
        f"elif not os.path.exists(killed): print('{status}')",
        "else: print('Application not found.')",
    )
    application = cluster.find("headrace-se_1-1")
    assert application is not None
    assert (application.alive, application.message) == (True, "Running")
    stop_application(cluster, "headrace-se_1-1")
    assert cluster.find("headrace-se_1-1") is None


def test_output_without_a_state_is_reported_as_unreachable(tmp_path: Path) -> None:
    cluster = kubernetes(tmp_path, "print('connect timed out'); sys.exit(1)")
    with pytest.raises(BackendUnreachable, match="connect timed out"):
        cluster.find("headrace-se_1-1")


def test_a_missing_spark_submit_is_reported_as_unreachable(tmp_path: Path) -> None:
    cluster = Kubernetes(tmp_path / "missing", MASTER, "sql", {})
    with pytest.raises(BackendUnreachable, match="does not answer"):
        cluster.find("headrace-se_1-1")
