"""A driver passes values of NumPy to the JVM without importing PySpark's test tools."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import numpy as np
import pytest
from pyspark.sql.types import NumpyArrayConverter, NumpyScalarConverter

if TYPE_CHECKING:
    from headrace.driver.spark import Spark

_CHECK = """
import sys
from headrace.driver.spark_version.application import replace_checks
from pyspark.sql.types import NumpyArrayConverter, NumpyScalarConverter
replace_checks()
for converter in (NumpyArrayConverter(), NumpyScalarConverter()):
    print(converter.can_convert("text"))
print("pyspark.testing" in sys.modules)
"""


def test_the_checks_import_no_test_tools() -> None:
    output = subprocess.run(
        [sys.executable, "-c", _CHECK], capture_output=True, text=True, check=True
    ).stdout
    assert output.split() == ["False", "False", "False"]


@pytest.mark.spark
def test_values_of_numpy_are_converted(driver_spark: Spark) -> None:
    assert NumpyScalarConverter().can_convert(np.int64(7))
    assert NumpyArrayConverter().can_convert(np.array([1, 2]))
    assert not NumpyArrayConverter().can_convert(np.array([[1], [2]]))
    jvm = driver_spark.context._jvm
    assert jvm is not None
    assert jvm.java.lang.Math.abs(np.int64(-7)) == 7
    assert jvm.java.util.Arrays.toString(np.array([1, 2])) == "[1, 2]"
