"""The converters of NumPy values for Py4J, without PySpark's test tools.

PySpark asks each converter about each argument of a call. Its converters of NumPy values import
`pyspark.testing` to learn whether NumPy is installed. This import also loads pandas and unittest:
0.2 s of the start of a driver, while the JVM waits for its first call.
"""

from __future__ import annotations

import sys
from typing import Any

from pyspark.sql.types import NumpyArrayConverter, NumpyScalarConverter


def replace_checks() -> None:
    """Replace the checks of both converters by equal checks without the import."""
    setattr(NumpyArrayConverter, "can_convert", _is_vector)  # noqa: B010 - mypy refuses a method
    setattr(NumpyScalarConverter, "can_convert", _is_scalar)  # noqa: B010 - as above


def _is_vector(_converter: NumpyArrayConverter, value: Any) -> bool:
    numpy = _loaded_numpy()
    return numpy is not None and isinstance(value, numpy.ndarray) and value.ndim == 1


def _is_scalar(_converter: NumpyScalarConverter, value: Any) -> bool:
    numpy = _loaded_numpy()
    return numpy is not None and isinstance(value, numpy.generic)


def _loaded_numpy() -> Any:
    """Return the module; None if this process has no value of NumPy, because it is not loaded."""
    return sys.modules.get("numpy")
