from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.grammar.spark_parser import SparkParser


@pytest.fixture(scope="session")
def parser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkParser]:
    spark = SparkParser(tmp_path_factory.mktemp("spark-parser"))
    try:
        yield spark
    finally:
        spark.close()
