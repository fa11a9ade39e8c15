"""Worker that runs and times queries in PySpark. Requests and responses are lines of JSON."""

from __future__ import annotations

import json
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa
import pyspark
from pyspark.sql import DataFrame, SparkSession

from benchmarks.peers.processes import CONF

JAVA_VERSION = "SELECT reflect('java.lang.System', 'getProperty', 'java.version')"
FORMS = {
    "rows by toArrow": lambda frame: frame.toArrow().to_pylist(),
    "rows by collect": DataFrame.collect,
    "table": DataFrame.toArrow,
}


def main() -> None:
    # The JVM inherits standard output and may write to it: use another descriptor for responses.
    responses = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    conf = CONF | json.loads(sys.argv[1])
    spark = SparkSession.builder.config(map=conf).getOrCreate()
    for line in sys.stdin:
        request = json.loads(line)
        if "stream" in request:
            reports = write_stream(spark, **request["stream"])
            responses.write(json.dumps({"reports": reports}) + "\n")
            continue
        if "rate" in request:
            responses.write(json.dumps({"rate": measure_rate(spark, **request["rate"])}) + "\n")
            continue
        if "query" not in request:
            versions = {"pyspark": pyspark.__version__, "pyarrow": pa.__version__}
            versions["java"] = spark.sql(JAVA_VERSION).first()[0]
            responses.write(json.dumps(versions) + "\n")
            continue
        run = FORMS[request["form"]]
        start = time.perf_counter()
        run(spark.sql(request["query"]))
        responses.write(json.dumps({"seconds": time.perf_counter() - start}) + "\n")
    spark.stop()


def measure_rate(spark: SparkSession, query: str, threads: int, seconds: float) -> float:
    """Repeat a query in threads, and return how many ended in a second."""
    start = time.perf_counter()

    def repeat() -> int:
        count = 0
        while time.perf_counter() - start < seconds:
            spark.sql(query).collect()
            count += 1
        return count

    with ThreadPoolExecutor(threads) as pool:
        counts = [pool.submit(repeat) for _ in range(threads)]
        return sum(count.result() for count in counts) / (time.perf_counter() - start)


def write_stream(
    spark: SparkSession, schema: str, source: dict[str, str], sink: dict[str, str]
) -> list[dict[str, Any]]:
    """Copy JSON files to Parquet with a streaming query, and return Spark's reports of it."""
    rows = spark.readStream.format("json").schema(schema).options(**source).load()
    writer = rows.writeStream.format("parquet").options(**sink).trigger(availableNow=True)
    query = writer.start()
    query.awaitTermination()
    return [json.loads(report.json) for report in query.recentProgress]


if __name__ == "__main__":
    main()
