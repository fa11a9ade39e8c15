"""How a driver starts its JVM, with a program in the place of spark-submit."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from headrace.driver.jvm_start import JvmStart, remove_connection
from headrace.driver.spark import Spark, SparkUnavailable
from headrace.errors import DriverLost
from headrace.files.spark_files import properties_file
from headrace.model.messages import Bootstrap

CONF = {"spark.app.name": "a", "spark.my.password": "secret-value", "not.spark": "x"}
ANSWER = """
import os, struct, sys
path = os.environ["_PYSPARK_DRIVER_CONN_INFO_PATH"]
with open(path + ".new", "wb") as file:
    file.write(struct.pack(">ii", 4711, 6) + b"key-of")
with open("seen", "w") as file:
    arguments = sys.argv[1:]
    properties = arguments[arguments.index("--properties-file") + 1]
    file.write(" ".join(arguments) + "\\n" + open(properties).read())
os.rename(path + ".new", path)
sys.stdin.read()
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make the test's folder Spark's home, and the working directory."""
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    monkeypatch.setattr("tempfile.tempdir", None)
    monkeypatch.delenv("PYSPARK_SUBMIT_ARGS", raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tmp").mkdir()
    (tmp_path / "bin").mkdir()
    return tmp_path


def write_program(home: Path, text: str) -> None:
    program = home / "bin" / "spark-submit"
    program.write_text(f"#!{sys.executable} -S\n{text}")
    program.chmod(0o700)


def test_the_connection_is_in_the_environment_until_it_is_removed(home: Path) -> None:
    write_program(home, ANSWER)
    start = JvmStart(CONF, home / "bootstrap.json")
    try:
        start.wait()
        connection = [os.environ[f"PYSPARK_GATEWAY_{name}"] for name in ("PORT", "SECRET")]
        assert connection == ["4711", "key-of"]
    finally:
        remove_connection()
        # The program ends with its standard input.
        start.process.communicate(timeout=60)
    assert "PYSPARK_GATEWAY_PORT" not in os.environ
    assert "PYSPARK_GATEWAY_SECRET" not in os.environ


def test_the_configuration_is_in_a_file_that_exists_only_during_the_start(home: Path) -> None:
    write_program(home, ANSWER)
    start = JvmStart(CONF, home / "bootstrap.json")
    try:
        start.wait()
    finally:
        remove_connection()
        start.process.communicate(timeout=60)
    arguments, *properties = (home / "seen").read_text().splitlines()
    assert "secret-value" not in arguments
    assert arguments.endswith("pyspark-shell")
    assert properties == ["spark.app.name=a", "spark.my.password=secret-value"]
    assert not properties_file(home / "bootstrap.json").exists()
    assert list((home / "tmp").iterdir()) == []


def test_a_jvm_that_ends_at_once_is_an_error(home: Path) -> None:
    write_program(home, "raise SystemExit(1)")
    start = JvmStart(CONF, home / "bootstrap.json")
    with pytest.raises(RuntimeError, match="The JVM ended before Spark could be started"):
        start.wait()
    assert not properties_file(home / "bootstrap.json").exists()
    assert list((home / "tmp").iterdir()) == []


def test_a_missing_spark_is_an_error(home: Path) -> None:
    start = JvmStart(CONF, home / "bootstrap.json")
    with pytest.raises(FileNotFoundError):
        start.wait()
    assert not properties_file(home / "bootstrap.json").exists()
    assert list((home / "tmp").iterdir()) == []


def make_bootstrap(folder: Path) -> Bootstrap:
    return Bootstrap(
        session_id="se_1",
        epoch=1,
        token=None,
        nodes=[],
        conf={},
        results=str(folder),
        inline_limit=2**20,
        chunk_limit=2**20,
        lease_seconds=1,
        renew_seconds=1,
        orphan_seconds=1,
    )


@pytest.mark.parametrize(
    "end", ["os.kill(os.getpid(), signal.SIGKILL)", "sys.exit(128 + 9)"], ids=["itself", "a shell"]
)
def test_a_jvm_that_is_killed_while_it_starts_is_a_lost_driver(home: Path, end: str) -> None:
    """The session may start another driver. If Spark refuses to start, that would be in vain."""
    write_program(home, f"import os, signal, sys\n{end}")
    with pytest.raises(DriverLost, match="killed by SIGKILL"):
        Spark(make_bootstrap(home), JvmStart(CONF, home / "bootstrap.json"))


NO_COMMAND = "/spark/bin/spark-class: line 97: CMD: bad array subscript"


@pytest.mark.parametrize("notes", ["", "NOTE: Picked up JDK_JAVA_OPTIONS: -Xint\\n"])
def test_a_launcher_of_spark_that_is_killed_is_a_lost_driver(home: Path, notes: str) -> None:
    """spark-class does not pass on the exit code of the JVM that makes the command of Spark."""
    write_program(home, f"import sys\nsys.exit('{notes}{NO_COMMAND}')")
    with pytest.raises(DriverLost, match="killed before it could start Spark"):
        Spark(make_bootstrap(home), JvmStart(CONF, home / "bootstrap.json"))


@pytest.mark.parametrize(
    "reason", ["Invalid maximum heap size: -Xmx1x", "Error: Could not find or load main class x"]
)
def test_a_java_that_does_not_start_is_no_lost_driver(home: Path, reason: str) -> None:
    write_program(home, f"import sys\nsys.exit('{reason}\\n{NO_COMMAND}')")
    with pytest.raises(SparkUnavailable, match="Spark did not start"):
        Spark(make_bootstrap(home), JvmStart(CONF, home / "bootstrap.json"))


def test_the_reason_of_a_start_is_not_that_of_an_earlier_driver(home: Path) -> None:
    os.write(2, b"java.io.IOException: of an earlier driver\n")
    write_program(home, "import sys\nsys.exit('java.net.BindException: of this one')")
    with pytest.raises(SparkUnavailable, match="BindException: of this one"):
        Spark(make_bootstrap(home), JvmStart(CONF, home / "bootstrap.json"))
    write_program(home, "raise SystemExit(1)")
    with pytest.raises(SparkUnavailable, match="The JVM ended before Spark could be started"):
        Spark(make_bootstrap(home), JvmStart(CONF, home / "bootstrap.json"))


def test_a_jvm_that_ends_by_itself_has_refused_to_start(home: Path) -> None:
    write_program(home, "raise SystemExit(1)")
    with pytest.raises(SparkUnavailable, match="Spark did not start"):
        Spark(make_bootstrap(home), JvmStart(CONF, home / "bootstrap.json"))
