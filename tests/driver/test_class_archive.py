"""The program that archives the classes of drivers, with a real Spark."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.short_lived_java import archive_of_the_tests

from headrace.control.host.class_archive import ClassArchives
from headrace.control.host.java import find_java
from headrace.control.launchers.bootstrap_files import TemporaryFolders

pytestmark = pytest.mark.spark

PROGRAM = "headrace.driver.class_archive"


def create(archive: Path) -> subprocess.CompletedProcess[str]:
    """Run the program that creates an archive."""
    return subprocess.run(
        [sys.executable, "-P", "-m", PROGRAM, str(archive)],
        env={**os.environ, "JAVA_HOME": str(find_java().path)},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Create an archive, which takes a minute of processor time."""
    archive = tmp_path_factory.mktemp("classes") / "spark.jsa"
    completed = create(archive)
    assert completed.returncode == 0, completed.stderr
    assert "ERROR" not in completed.stderr
    assert "Traceback" not in completed.stderr
    return archive


@pytest.fixture
def host_archive() -> Path:
    """Return the archive of this host, which `make test` has created."""
    archive = archive_of_the_tests()
    assert archive.exists(), "make test creates it"
    return archive


@pytest.mark.matrix
def test_the_archive_is_all_that_remains(archive: Path) -> None:
    assert {file.name for file in archive.parent.iterdir()} == {"spark.jsa", "spark.lock"}


@pytest.mark.matrix
def test_an_existing_archive_is_kept(archive: Path) -> None:
    before = archive.stat()
    assert create(archive).returncode == 0
    assert archive.stat() == before


def test_spark_submit_reads_its_classes_from_the_archive(
    host_archive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ClassArchives, "find", lambda _self, _java: host_archive)
    # The tests' other JVMs read an archive of the tests.
    monkeypatch.delenv("JDK_JAVA_OPTIONS", raising=False)
    options = ClassArchives(tmp_path).jvm_options(find_java())
    log = tmp_path / "classes.log"
    environment = TemporaryFolders(tmp_path).environment(
        "driver", {**os.environ, "JAVA_HOME": str(find_java().path)}, {}, options
    )
    environment["SPARK_SUBMIT_OPTS"] += f" -Xlog:class+load:file={log}"

    run = subprocess.run(
        ["spark-submit", "--version"],
        env={**environment, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=True,
    )

    text = log.read_text()
    [main] = [line for line in text.splitlines() if "spark.deploy.SparkSubmit source" in line]
    assert main.endswith("shared objects file (top)")
    assert "[warning]" not in run.stdout
