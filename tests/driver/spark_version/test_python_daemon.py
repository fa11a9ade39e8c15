"""The path of Python workers."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pyspark
import pytest

from headrace.driver.spark_version.collect import collect_rdd
from headrace.driver.spark_version.python_daemon import DAEMON_MODULE, with_daemon

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_MODULE = "headrace.driver.spark_version.python_daemon"
_ZIPS = sorted((Path(pyspark.__file__).parent / "python" / "lib").glob("*.zip"))


@pytest.mark.parametrize(
    ("conf", "environment", "expected"),
    [
        ({"spark.master": "local[2]"}, {}, _MODULE),
        ({"spark.master": "local[2]"}, {"PYSPARK_PYTHON": sys.executable}, _MODULE),
        ({"spark.master": "local[2]"}, {"PYSPARK_PYTHON": "/other/python"}, None),
        ({"spark.master": "local[2]", "spark.pyspark.python": "/other/python"}, {}, None),
        ({"spark.master": "local[2]", DAEMON_MODULE: "mine"}, {}, "mine"),
        ({"spark.master": "yarn"}, {}, None),
        ({}, {}, None),
    ],
)
def test_workers_of_this_host_and_python_get_the_module(
    conf: dict[str, str], environment: dict[str, str], expected: str | None
) -> None:
    assert with_daemon(conf, environment).get(DAEMON_MODULE) == expected


@pytest.mark.parametrize("is_installed", [True, False])
def test_zips_stay_where_pyspark_is_not_installed(*, is_installed: bool) -> None:
    assert len(_ZIPS) == 2
    folders = [str(Path(__file__).parents[3] / "src"), *map(str, _ZIPS)]
    script = f"import sys; from {_MODULE} import remove_zips; remove_zips(); print(sys.path)"
    run = subprocess.run(
        # -S leaves out the folder of installed packages.
        [sys.executable, *([] if is_installed else ["-S"]), "-c", script],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(folders)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert ("pyspark.zip" in run.stdout) is not is_installed


@pytest.mark.spark
def test_a_worker_has_no_zip_of_pyspark_on_its_path(spark: SparkSession) -> None:
    def read_path(_number: int) -> list[str]:
        import sys

        return sys.path

    [path] = collect_rdd(spark.sparkContext.parallelize([1], 1).map(read_path))
    assert {Path(entry).name for entry in path}.isdisjoint({each.name for each in _ZIPS})
