"""How the reason for a failed start is read from a Spark log."""

from __future__ import annotations

from pathlib import Path

from headrace.files.spark_files import find_last_exception, read_tail

_LOG = (
    "26/11/21 WARN Utils: java.net.X is a class name within a warning\n"
    'Exception in thread "main" org.apache.spark.SparkException: Master must be known\n'
    "\tat org.apache.spark.deploy.SparkSubmit.error(SparkSubmit.scala:1065)\n"
)


def test_the_last_exception_of_a_log_is_found() -> None:
    assert find_last_exception(_LOG) == "org.apache.spark.SparkException: Master must be known"


def test_the_cause_of_an_exception_takes_precedence() -> None:
    log = _LOG + "Caused by: java.io.IOException: no disk\n\tat x\n"
    assert find_last_exception(log) == "java.io.IOException: no disk"


def test_a_log_without_an_exception_gives_none() -> None:
    assert find_last_exception("all is well\n") is None


def test_the_tail_of_a_log_starts_at_the_given_byte_and_is_limited(tmp_path: Path) -> None:
    log = tmp_path / "driver.log"
    log.write_text("first run\nsecond run\n")
    assert read_tail(log) == "first run\nsecond run\n"
    assert read_tail(log, start=10) == "second run\n"
    log.write_text("x" * 100_000)
    assert len(read_tail(log)) == 64 * 1024


def test_a_log_that_cannot_be_read_is_empty(tmp_path: Path) -> None:
    assert read_tail(tmp_path / "no-such.log") == ""
