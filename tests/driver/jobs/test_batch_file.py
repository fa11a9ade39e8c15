"""The driver reads the SQL file of a batch, and runs its Python file."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from headrace.errors import BatchFileUnreadable
from headrace.model.failure import Failure
from headrace.model.job_messages import (
    MAX_FILE_BYTES,
    MAX_FILE_STATEMENTS,
    FileLanguage,
    FileRead,
    RunFile,
    TaskDone,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def run(spark: SparkSession, file: Path | str, *arguments: str) -> FileRead | TaskDone:
    from headrace.driver.jobs.batch_file import run_file

    language = FileLanguage.SQL if str(file).endswith(".sql") else FileLanguage.PYTHON
    task = RunFile(location=str(file), language=language, arguments=list(arguments))
    return run_file(spark, task)


def fail(spark: SparkSession, file: Path, text: str) -> Failure:
    """Run a Python file that fails, and return its failure."""
    from headrace.driver.failures import KnownFailure

    file.write_text(text)
    with pytest.raises(KnownFailure) as raised:
        run(spark, file)
    return raised.value.failure


@pytest.fixture
def python_file(tmp_path: Path) -> Path:
    return tmp_path / "a.py"


@pytest.fixture
def sql_file(tmp_path: Path) -> Path:
    return tmp_path / "a.sql"


def test_a_sql_file_is_read_as_its_statements(spark: SparkSession, sql_file: Path) -> None:
    text = "\ufeff-- first\nSELECT ';';\n\nBEGIN SELECT 1; SELECT 2; END;\n-- nothing\n"
    sql_file.write_text(text, encoding="utf-8")
    read = run(spark, f"file:{sql_file}")
    assert isinstance(read, FileRead)
    assert [(each.text, each.line) for each in read.statements] == [
        ("-- first\nSELECT ';'", 1),
        ("BEGIN SELECT 1; SELECT 2; END", 4),
    ]


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (None, "does not exist"),
        (b"SELECT '\xff'", "not a text in UTF-8"),
        (b"SELECT 1\0", "not a text in UTF-8"),
        (b"SELECT 1 " + b" " * MAX_FILE_BYTES, f"At most {MAX_FILE_BYTES}"),
        (b"SELECT 1;" * (MAX_FILE_STATEMENTS + 1), f"At most {MAX_FILE_STATEMENTS}"),
    ],
    ids=["missing", "other encoding", "binary", "large", "many statements"],
)
def test_a_file_that_cannot_run_is_refused(
    spark: SparkSession, sql_file: Path, content: bytes | None, text: str
) -> None:
    if content is not None:
        sql_file.write_bytes(content)
    with pytest.raises(BatchFileUnreadable, match=text):
        run(spark, sql_file)


def test_a_directory_and_an_unknown_file_system_are_refused(
    spark: SparkSession, tmp_path: Path
) -> None:
    folder = tmp_path / "b.sql"
    folder.mkdir()
    with pytest.raises(BatchFileUnreadable, match="is not a file"):
        run(spark, folder)
    with pytest.raises(BatchFileUnreadable, match="cannot be read"):
        run(spark, "nothing://host/a.sql")


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # of PySpark
def test_a_python_file_runs_as_a_program(
    spark: SparkSession, python_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    python_file.write_text("""
import sys
from pyspark.sql import SparkSession
from pyspark.sql.functions import udf

def twice(value):
    return value * factor

factor = 2
if __name__ == "__main__":
    same = SparkSession.builder.appName("mine").getOrCreate()
    assert same.sparkContext is spark.sparkContext
    rows = spark.range(3).select(udf(twice, "long")("id")).collect()
    print(sys.argv, __file__, [row[0] for row in rows])
""")
    earlier = sys.argv
    assert run(spark, python_file, "2026-01-01", "x") == TaskDone()
    argv = [str(python_file), "2026-01-01", "x"]
    assert capsys.readouterr().out == f"{argv} {python_file} [0, 2, 4]\n"
    assert sys.argv is earlier


@pytest.mark.parametrize(
    "end", ["spark.stop()", "spark.sparkContext.stop()", "import sys; sys.exit()", "exit(0)"]
)
def test_a_program_may_stop_spark_at_its_end(
    spark: SparkSession, python_file: Path, end: str
) -> None:
    python_file.write_text(f"spark.range(1).count()\n{end}\n")
    assert run(spark, python_file) == TaskDone()
    assert spark.range(2).count() == 2


def test_the_driver_can_stop_spark_after_a_program(spark: SparkSession, python_file: Path) -> None:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    stops: list[Any] = [SparkSession.stop, SparkContext.stop]
    fail(spark, python_file, "raise ValueError('no')")
    assert [SparkSession.stop, SparkContext.stop] == stops


@pytest.mark.parametrize(
    ("text", "message", "line"),
    [
        ("x = 1\nraise ValueError('no')", "line 2 of a.py: ValueError: no", 2),
        ("x = 1\n\nif:", "line 3 of a.py: SyntaxError: invalid syntax", 3),
        ("import sys\nsys.exit(3)", "line 2 of a.py: SystemExit: 3", 2),
        ("import sys\nsys.exit('bad input')", "line 2 of a.py: SystemExit: bad input", 2),
    ],
)
def test_a_failure_names_the_line_of_the_program(
    spark: SparkSession, python_file: Path, text: str, message: str, line: int
) -> None:
    failure = fail(spark, python_file, text)
    assert failure.message.startswith(message)
    assert (failure.code, failure.line) == ("execution_error", line)


def test_an_error_of_spark_keeps_its_condition(spark: SparkSession, python_file: Path) -> None:
    failure = fail(spark, python_file, "spark.range(1)\nspark.table('no_such_table').count()")
    assert (failure.code, failure.condition) == ("analysis_error", "TABLE_OR_VIEW_NOT_FOUND")
    assert failure.message.startswith("line 2 of a.py: ")
