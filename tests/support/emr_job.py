"""Executes a job run of a moto server on this host with the real Spark, as EMR Serverless does."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from fsspec.core import url_to_fs

from headrace.control.host.java import find_java


class EmrJob:
    """Downloads the files of a job run and runs spark-submit with its arguments and defaults."""

    def __init__(self, run: dict[str, Any], folder: Path) -> None:
        folder.mkdir()
        self.log = folder / "driver.log"
        submit = run["jobDriver"]["sparkSubmit"]
        [option, files] = shlex.split(submit["sparkSubmitParameters"])
        assert option == "--py-files"
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                [
                    str(Path(sys.executable).with_name("spark-submit")),
                    *("--master", "local[1]"),
                    *("--conf", "spark.ui.port=0"),
                    *("--properties-file", _write_defaults(run, folder)),
                    *("--py-files", ",".join(_download(file, folder) for file in files.split(","))),
                    _download(submit["entryPoint"], folder),
                    *submit["entryPointArguments"],
                ],
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                env={
                    **os.environ,
                    "JAVA_HOME": str(find_java().path),
                    "PYSPARK_PYTHON": sys.executable,
                    "SPARK_LOCAL_IP": "127.0.0.1",
                    # A killed process does not delete its local files; the test does.
                    "SPARK_LOCAL_DIRS": str(folder),
                },
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.kill()

    def runs(self) -> bool:
        return self._process.poll() is None

    def kill(self) -> None:
        """Kill the JVM and the driver, without a message to the node."""
        if self.runs():
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


def _download(location: str, folder: Path) -> str:
    """Copy an object into a folder and return the path of the copy."""
    file = folder / location.rpartition("/")[2]
    system, path = url_to_fs(location)
    file.write_bytes(system.cat_file(path))
    return str(file)


def _write_defaults(run: dict[str, Any], folder: Path) -> str:
    """Write the Spark configuration of a job run to a properties file and return its path."""
    [defaults] = run["configurationOverrides"]["applicationConfiguration"]
    assert defaults["classification"] == "spark-defaults"
    file = folder / "spark-defaults.conf"
    file.write_text("".join(f"{key} {value}\n" for key, value in defaults["properties"].items()))
    return str(file)
