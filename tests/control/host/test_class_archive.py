"""The archives of classes of a host: when one is created, used, created again and deleted."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from tests.support.launches import write_interpreter
from tests.support.waiting import wait_until

from headrace.control.host import class_archive
from headrace.control.host.class_archive import ClassArchives
from headrace.control.host.java import JavaHome

DAY = 86_400
JAVA = JavaHome(Path("/opt/no-java"), "21.0.4", "JAVA_HOME")
"""A Java that does not exist: Spark does not start with it."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "classes"


@pytest.fixture
def archives(folder: Path) -> Iterator[ClassArchives]:
    archives = ClassArchives(folder)
    yield archives
    archives.stop()


def creations() -> list[psutil.Process]:
    """Return the processes of this test that create an archive."""
    return [each for each in psutil.Process().children() if _creates_archive(each)]


def _creates_archive(process: psutil.Process) -> bool:
    try:
        return "headrace.driver.class_archive" in process.cmdline()
    except (psutil.ZombieProcess, psutil.NoSuchProcess):  # it has ended
        return False


def archive_of(archives: ClassArchives, folder: Path) -> Path:
    """Create an empty archive for JAVA, and return its path."""
    archives.create(JAVA)
    [lock] = wait_until(lambda: list(folder.glob("*.lock")), what="the creation begins")
    archives.stop()
    archive = lock.with_suffix(".jsa")
    archive.touch()
    return archive


def test_a_jvm_gets_options_only_if_the_archive_exists(
    archives: ClassArchives, folder: Path
) -> None:
    assert archives.jvm_options(JAVA) == []

    archive = archive_of(archives, folder)

    assert archives.jvm_options(JAVA)[0] == f"-XX:SharedArchiveFile={archive}"
    archives.create(JAVA)
    assert not creations()


def test_another_java_and_other_jars_have_another_archive(
    archives: ClassArchives, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jars = tmp_path / "spark" / "jars"
    jars.mkdir(parents=True)
    (jars / "spark-core.jar").write_bytes(b"1")
    monkeypatch.setenv("SPARK_HOME", str(jars.parent))
    archive_of(archives, folder)
    assert archives.jvm_options(JAVA)

    modified = (jars / "spark-core.jar").stat().st_mtime
    os.utime(jars / "spark-core.jar", (modified, modified - 1))
    assert not archives.jvm_options(JAVA)
    os.utime(jars / "spark-core.jar", (modified, modified))
    assert archives.jvm_options(JAVA)

    assert not archives.jvm_options(JavaHome(JAVA.path, "21.0.5", "JAVA_HOME"))
    (jars / "added.jar").write_bytes(b"2")
    assert not archives.jvm_options(JAVA)


def let_creations_wait(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the programs that create archives wait: without a Java, they would end by themselves."""
    waits = write_interpreter(folder / "python", "time.sleep(600)")
    monkeypatch.setattr(sys, "executable", waits)


def test_the_end_of_the_node_ends_the_creation_and_the_next_node_begins_again(
    archives: ClassArchives, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    let_creations_wait(tmp_path, monkeypatch)
    archives.create(JAVA)
    wait_until(creations, what="the creation is visible")
    [process] = creations()
    archives.create(JAVA)
    assert creations() == [process]

    archives.stop()

    assert not process.is_running()
    next_node = ClassArchives(folder)
    next_node.create(JAVA)
    wait_until(lambda: len(creations()) == 1, what="another creation")
    next_node.stop()


def test_after_a_failure_nothing_happens_for_a_day(
    archives: ClassArchives, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archives.create(JAVA)
    [log] = folder.glob("*.log")
    reason = "the archive of classes was not created"
    wait_until(lambda: reason in log.read_text(), what="the failure of the creation")
    wait_until(lambda: not creations(), what="the end of the creation")

    next_node = ClassArchives(folder)
    next_node.create(JAVA)
    assert not creations()

    os.utime(log, (log.stat().st_mtime - DAY,) * 2)
    let_creations_wait(tmp_path, monkeypatch)
    next_node.create(JAVA)
    wait_until(lambda: len(creations()) == 1, what="another creation")
    next_node.stop()


def test_archives_that_were_not_used_for_a_month_are_deleted(
    archives: ClassArchives, folder: Path
) -> None:
    folder.mkdir()
    unused, used = folder / "unused.jsa", folder / "used.jsa"
    for archive in (unused, used):
        archive.touch()
    os.utime(unused, (unused.stat().st_mtime - 31 * DAY,) * 2)

    archives.create(JAVA)

    assert not unused.exists()
    assert used.exists()


JVM_OUTPUT = "Traceback (most recent call last):\n  py4j: Answer from Java side is empty\n"


@pytest.mark.parametrize("exit_code", [0, 1])
def test_what_the_jvm_prints_is_shown_only_if_there_is_no_archive(
    folder: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, exit_code: int
) -> None:
    program = f"import sys; sys.stderr.write({JVM_OUTPUT!r}); sys.exit({exit_code})"
    popen = subprocess.Popen

    def start(_command: list[str], **options: Any) -> subprocess.Popen[bytes]:
        return popen([sys.executable, "-c", program], **options)

    monkeypatch.setenv("HEADRACE_CLASS_ARCHIVES", str(folder))
    monkeypatch.setattr(class_archive, "find_java", lambda: JAVA)
    monkeypatch.setattr(sys, "argv", ["class_archive"])
    folder.mkdir()
    log = ClassArchives(folder).find(JAVA)
    assert log is not None
    log.with_suffix(".log").write_text("of an earlier day\n")
    with monkeypatch.context() as patch:
        patch.setattr(subprocess, "Popen", start)
        assert class_archive.main() == exit_code

    shown = capfd.readouterr().err
    assert (JVM_OUTPUT in shown) == bool(exit_code)
    assert ("was not created" in shown) == bool(exit_code)
    assert "of an earlier day" not in shown
    assert JVM_OUTPUT in log.with_suffix(".log").read_text()


def test_the_command_fails_where_it_cannot_write(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("HEADRACE_CLASS_ARCHIVES", str(tmp_path / "file" / "classes"))
    monkeypatch.setattr(class_archive, "find_java", lambda: JAVA)
    monkeypatch.setattr(sys, "argv", ["class_archive"])
    assert class_archive.main() == 1
    assert "The archive cannot be created" in capsys.readouterr().err


def test_without_a_folder_there_are_no_archives() -> None:
    archives = ClassArchives(None)
    archives.create(JAVA)
    assert not creations()
    assert archives.jvm_options(JAVA) == []


def test_a_folder_that_cannot_be_created_is_reported_and_harms_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").touch()
    archives = ClassArchives(tmp_path / "file" / "classes")
    archives.create(JAVA)
    assert "no archive of classes can be created" in caplog.text
    assert archives.jvm_options(JAVA) == []


def test_the_creation_runs_with_the_python_of_the_node(archives: ClassArchives) -> None:
    archives.create(JAVA)
    # The process of a Java that does not exist may have ended already.
    assert archives._creation is not None
    process, _archive = archives._creation
    assert isinstance(process.args, list)
    assert process.args[0] == sys.executable
