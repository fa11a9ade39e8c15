"""Runs queries in its own PySpark session and times them: a question and an answer per line."""

from __future__ import annotations

import json
import os
import sys
import time

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
    # The JVM inherits what is standard output now; the answers go where only they can.
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    conf = CONF | json.loads(sys.argv[1])
    spark = SparkSession.builder.config(map=conf).getOrCreate()
    for line in sys.stdin:
        question = json.loads(line)
        if "query" not in question:
            versions = {"pyspark": pyspark.__version__, "pyarrow": pa.__version__}
            versions["java"] = spark.sql(JAVA_VERSION).first()[0]
            answers.write(json.dumps(versions) + "\n")
            continue
        run = FORMS[question["form"]]
        began = time.perf_counter()
        run(spark.sql(question["query"]))
        answers.write(json.dumps({"seconds": time.perf_counter() - began}) + "\n")
    spark.stop()


if __name__ == "__main__":
    main()
