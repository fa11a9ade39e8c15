"""Manifests of Flink's SQL runner."""

from __future__ import annotations

import pytest

from headrace.deploy.load import LoadedManifests, load_manifests
from headrace.deploy.problems import SourceText
from headrace.model.retry_policy import read_retry_policy

SEED_SQL = """---
name: query-unique-name
description: "Some description."
target-table: "`kafka`.`some-kafka-table-name`"
sql: >-
  SELECT
      `column_a`,
      `column_b`,
      `column_c`,
      `record_time`
  FROM
      `kafka`.`some-kafka-input-table`
  WHERE
      `column_d` = 'SOME_VALUE'
flinkProperties: { }
"""
SEED_CODE = """---
name: query-unique-name
description: "Some description."
target-table: "`kafka`.`some-kafka-table-name`"
code: >
  from pyflink.common.typeinfo import Types

  execution_output = stream_env.from_collection(
      collection=[(1, 'aaa'), (2, 'bb'), (3, 'cccc')],
      type_info=Types.ROW([Types.INT(), Types.STRING()])
  )
flinkProperties: { }
"""
SEED_STORED = """description: "Some description."
flinkProperties:
  execution.checkpointing.externalized-checkpoint-retention: RETAIN_ON_CANCELLATION
  execution.checkpointing.interval: 60s
  execution.checkpointing.min-pause: 60s
  execution.checkpointing.mode: EXACTLY_ONCE
  execution.checkpointing.timeout: 1h
  pipeline.name: query-unique-name
  pipeline.object-reuse: 'true'
  restart-strategy: fixed-delay
  restart-strategy.fixed-delay.attempts: '2147483647'
  restart-strategy.fixed-delay.delay: 60s
  state.backend: rocksdb
  state.backend.incremental: 'true'
  state.backend.rocksdb.localdir: /mnt/flink
  state.checkpoints.dir: s3://some-s3-bucket/flink-sql-runner/checkpoints/query-unique-name/
  state.checkpoints.num-retained: '3'
  state.savepoints.dir: s3://some-s3-bucket/flink-sql-runner/savepoints/query-unique-name/
meta:
  query-create-timestamp: '2022-12-07 08:57:42'
  query-id: 35d3d720-760d-11ed-bfeb-02e547cf7baa
  query-version: 1
name: query-unique-name
sql: SELECT `column_a`, `column_b`, `column_c`, `record_time` FROM `kafka`.`some-kafka-input-table` WHERE `column_d` = 'SOME_VALUE'
target-table: "`kafka`.`some-flink-table-name`"
"""  # noqa: E501


def load(text: str, template: str | None = None, **variables: str) -> LoadedManifests:
    return load_manifests(
        [SourceText("m.yaml", text)],
        template=None if template is None else SourceText("t.yaml", template),
        variables=variables,
    )


def load_properties(*lines: str, more: str = "") -> LoadedManifests:
    properties = "".join(f"  {line}\n" for line in lines)
    query = "sql: SELECT 1\ntarget-table: t\n"
    return load(f"name: j\n{query}{more}flinkProperties:\n{properties}")


@pytest.mark.parametrize("text", [SEED_SQL, SEED_CODE, SEED_STORED])
def test_the_manifests_of_the_seed_are_accepted(text: str) -> None:
    loaded = load(text)

    assert loaded.problems == ()
    manifest = loaded.manifests[0].manifest
    assert manifest.name == "query-unique-name"
    assert manifest.target is not None
    assert manifest.target[0] == "kafka"


def test_the_stored_manifest_of_the_seed_is_translated() -> None:
    loaded = load(SEED_STORED)
    item = loaded.manifests[0]

    assert item.manifest.trigger == item.written["trigger"] == "60 seconds"
    policy = read_retry_policy({}, item.manifest.spark_properties)
    assert (policy.max_attempts, policy.min_backoff.seconds) == (2147483647, 60)
    assert policy.max_backoff == policy.min_backoff
    state_store = "spark.sql.streaming.stateStore"
    assert (
        item.manifest.spark_properties
        | {
            f"{state_store}.providerClass": "org.apache.spark.sql.execution.streaming.state"
            ".RocksDBStateStoreProvider",
            f"{state_store}.rocksdb.changelogCheckpointing.enabled": "true",
            "spark.sql.streaming.minBatchesToRetain": "3",
        }
        == item.manifest.spark_properties
    )
    assert item.meta is not None
    assert item.meta.query_id == "35d3d720-760d-11ed-bfeb-02e547cf7baa"
    assert [(note.line, note.message.split("`")[1]) for note in loaded.notes] == [
        (3, "execution.checkpointing.externalized-checkpoint-retention"),
        (5, "execution.checkpointing.min-pause"),
        (6, "execution.checkpointing.mode"),
        (7, "execution.checkpointing.timeout"),
        (9, "pipeline.object-reuse"),
        (15, "state.backend.rocksdb.localdir"),
        (16, "state.checkpoints.dir"),
        (18, "state.savepoints.dir"),
    ]
    by_key = {note.message.split("`")[1]: note.message for note in loaded.notes}
    assert by_key["pipeline.object-reuse"] == (
        "flinkProperties: `pipeline.object-reuse` has no counterpart on Spark and is ignored."
    )
    assert "always kept" in by_key["execution.checkpointing.externalized-checkpoint-retention"]
    assert "state location" in by_key["state.savepoints.dir"]


TRANSLATIONS = {
    ("parallelism.default: 4",): {"spark.sql.shuffle.partitions": "4"},
    ("state.backend.type: hashmap",): {
        "spark.sql.streaming.stateStore.providerClass": "org.apache.spark.sql.execution.streaming"
        ".state.HDFSBackedStateStoreProvider"
    },
    ("execution.checkpointing.incremental: false",): {
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "false"
    },
    ("execution.checkpointing.num-retained: 5",): {"spark.sql.streaming.minBatchesToRetain": "5"},
    ("restart-strategy: none",): {"spark.headrace.retry.enabled": "false"},
    ("restart-strategy.type: disable",): {"spark.headrace.retry.enabled": "false"},
    ("restart-strategy.fixed-delay.delay: 1 min",): {
        "spark.headrace.retry.min.backoff": "1min",
        "spark.headrace.retry.max.backoff": "1min",
    },
    (
        "restart-strategy: exponential-delay",
        "restart-strategy.exponential-delay.initial-backoff: 500",
        "restart-strategy.exponential-delay.max-backoff: 2 hours",
        "restart-strategy.exponential-delay.jitter-factor: 0.1",
        "restart-strategy.exponential-delay.reset-backoff-threshold: 1h",
        "restart-strategy.exponential-delay.backoff-multiplier: 2.0",
        "restart-strategy.fixed-delay.attempts: 3",
    ): {
        "spark.headrace.retry.min.backoff": "500ms",
        "spark.headrace.retry.max.backoff": "2h",
        "spark.headrace.retry.random.factor": "0.1",
        "spark.headrace.retry.healthy.period": "1h",
    },
    (): {},
}


@pytest.mark.parametrize(("lines", "expected"), TRANSLATIONS.items())
def test_properties_with_a_counterpart_are_translated(
    lines: tuple[str, ...], expected: dict[str, str]
) -> None:
    loaded = load_properties(*lines)

    assert loaded.problems == loaded.notes == ()
    properties = loaded.manifests[0].manifest.spark_properties
    assert properties == expected
    read_retry_policy({}, properties)


@pytest.mark.parametrize(
    "line",
    [
        "restart-strategy: failure-rate",
        "restart-strategy.failure-rate.delay: 1s",
        "restart-strategy: custom.Strategy",
        "restart-strategy.exponential-delay.backoff-multiplier: 1.5",
        "pipeline.name: other",
        "x.y: 1",
        "execution.checkpointing.dir: s3://x",
        "state.backend: com.acme.Backend",
        "state.backend.rocksdb.localdir: /mnt/flink",
    ],
)
def test_other_properties_are_noted_by_name(line: str) -> None:
    loaded = load_properties(line)

    assert (loaded.problems, len(loaded.notes), loaded.notes[0].line) == ((), 1, 5)
    assert f"`{line.partition(':')[0]}`" in loaded.notes[0].message
    assert loaded.manifests[0].manifest.spark_properties == {}


def test_what_the_manifest_says_for_spark_wins() -> None:
    loaded = load_properties(
        "execution.checkpointing.interval: 60s",
        "parallelism.default: 4",
        more="trigger: once\nspark-properties: {spark.sql.shuffle.partitions: 8}\n",
    )

    manifest = loaded.manifests[0].manifest
    assert manifest.trigger == "once"
    assert manifest.spark_properties == {"spark.sql.shuffle.partitions": "8"}


@pytest.mark.parametrize(
    ("lines", "column"),
    [
        (["execution.checkpointing.interval: soon"], 37),
        (["execution.checkpointing.interval: 5 fortnights"], 37),
        (["restart-strategy.fixed-delay.delay: -1s"], 39),
        (["a: [1]"], 6),
    ],
)
def test_an_invalid_value_is_a_problem_with_its_place(lines: list[str], column: int) -> None:
    problem = load_properties(*lines).problems[0]

    assert (problem.line, problem.column, problem.code) == (5, column, "invalid_value")


def test_properties_that_are_no_mapping_are_a_problem() -> None:
    loaded = load("name: j\nsql: SELECT 1\ntarget-table: t\nflinkProperties: x\n")

    assert [(p.line, p.code) for p in loaded.problems] == [(4, "invalid_value")]


def test_properties_of_the_template_are_translated_with_those_of_the_manifest() -> None:
    text = (
        "name: j\nsql: SELECT 1\ntarget-table: t\n"
        "flinkProperties: {parallelism.default: '${P}', x: null}\n"
    )
    template = "flinkProperties:\n  execution.checkpointing.interval: ${I}\n  x: 1\n  y: 1\n"
    loaded = load(text, template, P="16", I="1 h")

    item = loaded.manifests[0]
    assert item.manifest.trigger == "1 hour"
    assert item.manifest.spark_properties == {"spark.sql.shuffle.partitions": "16"}
    assert item.written["spark-properties"] == {"spark.sql.shuffle.partitions": "${P}"}
    assert [(note.path, note.line) for note in loaded.notes] == [("t.yaml", 4)]


def test_the_interval_is_noted_for_a_script() -> None:
    loaded = load(
        "name: j\nscript: SAVE STREAM s TO noop\n"
        "flinkProperties: {execution.checkpointing.interval: 60s}\n"
    )

    assert loaded.problems == ()
    assert "Write TRIGGER" in loaded.notes[0].message
