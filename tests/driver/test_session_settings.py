"""What statements SET: wrong values, reserved keys, and keys that their own `conf` names."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, cast

import pytest
from tests.support.journal import JournalLink

from headrace.config.conf_policy import ConfPolicy, find_refusal
from headrace.driver.execute import Execution
from headrace.model.headrace_options import CONF_OPTIONS, CTAS_ATOMICITY
from headrace.model.lifecycle import StatementState
from headrace.model.messages import Acknowledged, Assignment, Ended
from headrace.model.result import ResultRequest
from headrace.model.session import Snapshot

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.driver.spark import Spark

pytestmark = pytest.mark.spark

KEY = "spark.sql.shuffle.partitions"
OWN = CTAS_ATOMICITY.key
FORMS = [
    "SET {pair}",
    "EXECUTE IMMEDIATE 'SET {pair}'",
    "BEGIN EXECUTE IMMEDIATE 'SET {pair}'; END",
    "BEGIN DECLARE s STRING DEFAULT 'SET {pair}'; EXECUTE IMMEDIATE s; END",
]


@pytest.fixture(autouse=True)
def _clean_settings(spark: SparkSession) -> Iterator[None]:
    yield
    spark.sql("RESET")


class Link(JournalLink):
    """Also accepts the report that a statement has effects."""

    def report_start(self, *_arguments: Any, **_flags: Any) -> Acknowledged:
        return Acknowledged(applied=True)


def run(spark: Spark, text: str, conf: dict[str, str] | None = None, **fields: Any) -> Ended:
    assignment = Assignment(
        statement_id=f"st_{1:032}",
        text=text,
        parameters=[],
        conf=conf or {},
        result_request=ResultRequest(),
        is_query=False,
        attempt=1,
        **fields,
    )
    execution = Execution(spark, Link().as_link(), assignment, cast("Any", None))
    ended = execution.run()
    execution.remove_job_tag()
    return ended


@pytest.mark.parametrize("form", FORMS)
def test_a_wrong_value_is_refused_by_set_and_the_session_stays_useful(
    driver_spark: Spark, form: str
) -> None:
    ended = run(driver_spark, form.format(pair=f"{OWN} = bogus"))
    assert ended.state is StatementState.FAILED
    assert ended.failure is not None
    # As Spark refuses a wrong value for a setting of its own.
    assert ended.failure.condition == "INVALID_CONF_VALUE.REQUIREMENT"
    assert ended.failure.sqlstate == "22022"
    assert "Allowed values: auto, require, off." in ended.failure.message
    assert run(driver_spark, form.format(pair=f"{OWN} = OFF")).state is StatementState.SUCCESS
    assert driver_spark.session.conf.get(OWN) == "OFF"


def test_spark_refuses_the_values_that_a_node_refuses_for_each_option(driver_spark: Spark) -> None:
    from pyspark.errors import PySparkException

    driver_spark.prepare_changes()
    session = driver_spark.session.newSession()
    texts = [
        "true",
        "7",
        "0.5",
        "10s",
        "AUTO",
        "available  now",
        "",
        "bogus",
        "-1",
        "50 s",
        "1e400",
    ]
    for key, option in CONF_OPTIONS.items():
        for text in [*texts, "2147483647", "2147483648", "36525d", "36526d"]:
            try:
                session.conf.set(key, text)
                accepted = True
            except PySparkException:
                accepted = False
            assert accepted == option.type.matches(text), (key, text)


def test_a_session_with_a_wrong_value_from_an_old_snapshot_is_repaired(
    driver_spark: Spark, spark: SparkSession
) -> None:
    snapshot = Snapshot(catalog="spark_catalog", namespace=["default"], conf={OWN: "bogus"})
    lost = driver_spark.track_state().restore(snapshot)
    assert len(lost) == 1
    assert lost[0].startswith(f"setting {OWN}: ")
    assert spark.conf.get(OWN, None) is None


@pytest.mark.parametrize("repair", [f"SET {OWN} = auto", f"RESET {OWN}", "RESET"])
def test_set_and_reset_depend_on_no_setting(driver_spark: Spark, repair: str) -> None:
    settings = driver_spark.session._jsparkSession.sessionState().conf().settings()
    settings.put(OWN, "bogus")
    settings.put("headrace.writes.atomicity", "bogus")
    try:
        for text in (repair, repair.replace(OWN, "headrace.writes.atomicity")):
            assert run(driver_spark, text).state is StatementState.SUCCESS
        assert driver_spark.session.conf.get(OWN, "auto") == "auto"
    finally:
        settings.remove("headrace.writes.atomicity")


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("key", "code"),
    [
        ("headrace.ctas.atomicty", "invalid_setting"),
        ("spark.headrace.token", "invalid_setting"),
        ("Spark.Headrace.session.id", "invalid_setting"),
        ("spark.hadoop.fs.defaultFS", "setting_denied"),
        ("fs.defaultFS", "setting_denied"),
        ("spark.jars.packages", "setting_denied"),
    ],
)
def test_set_refuses_the_keys_that_conf_refuses(
    driver_spark: Spark, form: str, key: str, code: str
) -> None:
    text = form.format(pair=f"{key} = x")
    for fields in ({}, {"isolated": True}):
        ended = run(driver_spark, text, **fields)
        assert ended.failure is not None
        assert (ended.failure.code, ended.state) == (code, StatementState.FAILED)
        assert key in ended.failure.message
        assert ended.failure.column == text.index(key) + 1
    assert driver_spark.session.conf.get(key, None) is None


@pytest.mark.parametrize("key", ["my.own", KEY, OWN, "spark.hadoop.fs.s3a.endpoint"])
def test_set_accepts_every_other_key_and_reads_all(driver_spark: Spark, key: str) -> None:
    value = "auto" if key == OWN else "7"
    assert run(driver_spark, f"SET {key} = {value}").state is StatementState.SUCCESS
    for text in (f"SET {key}", "SET fs.defaultFS", "SET", "SET -v", f"RESET {key}"):
        assert run(driver_spark, text).state is StatementState.SUCCESS


@pytest.mark.parametrize("before", [None, "9"])
@pytest.mark.parametrize(
    ("text", "after"),
    [
        (f"SET {KEY} = 5", "5"),
        (f"SET {KEY} = 3", "3"),  # the value that its own conf has
        (f"EXECUTE IMMEDIATE 'SET {KEY} = 5'", "5"),
        (f"BEGIN EXECUTE IMMEDIATE 'SET {KEY} = 3'; SELECT raise_error('x'); END", "3"),
        (f"RESET {KEY}", "4"),
        ("RESET", "4"),
        (f"SET {KEY} = abc", None),
        ("SET my.own = 1", None),
        ("SELECT raise_error('x')", None),
    ],
)
def test_a_statement_keeps_what_it_sets_although_its_own_conf_names_the_key(
    driver_spark: Spark, text: str, after: str | None, before: str | None
) -> None:
    """`after` is None if the statement does not change the key. The default is 4."""
    conf = driver_spark.session.conf
    driver_spark.track_state()
    if before is not None:
        conf.set(KEY, before)
    ended = run(driver_spark, text, {KEY: "3"})
    assert conf.get(KEY) == (after or before or "4")
    settings = driver_spark.session._jsparkSession.sessionState().conf().settings()
    if after is None and before is None:
        assert settings.get(KEY) == "4"
    if after not in {None, "4"}:
        # The next driver has it too.
        assert ended.snapshot is not None
        assert ended.snapshot.conf[KEY] == after


def test_a_wrong_value_in_the_conf_of_a_statement_changes_nothing(driver_spark: Spark) -> None:
    ended = run(driver_spark, "SHOW TABLES", {KEY: "5", "spark.sql.ansi.enabled": "perhaps"})
    assert ended.failure is not None
    assert ended.failure.condition == "INVALID_CONF_VALUE.TYPE_MISMATCH"
    assert driver_spark.session.conf.get(KEY) == "4"


_CONFIG = "org.apache.spark.internal.config"
_ENTRIES = [f"{_CONFIG}.package", f"{_CONFIG}.UI", f"{_CONFIG}.Network", f"{_CONFIG}.Kryo"]
_ENTRIES += ["org.apache.spark.deploy.yarn.config.package", "org.apache.spark.deploy.k8s.Config"]


def _read_aliases(spark: SparkSession) -> dict[str, str]:
    """Return the keys that Spark reads in place of others, with these others."""
    jvm = spark._jvm
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()

    def read(module: str, name: str) -> Any:
        kind = jvm.java.lang.Class.forName(f"{module}$", True, loader)
        [field] = [each for each in kind.getDeclaredFields() if each.getName().endswith(name)]
        field.setAccessible(True)
        return field.get(kind.getField("MODULE$").get(None))

    for module in _ENTRIES:
        jvm.java.lang.Class.forName(f"{module}$", True, loader)
    aliases: dict[str, str] = {}
    pairs = read("org.apache.spark.SparkConf", "configsWithAlternatives").iterator()
    while pairs.hasNext():
        pair = pairs.next()
        keys = pair._2().iterator()
        while keys.hasNext():
            aliases[keys.next().key()] = pair._1()
    for entry in read(f"{_CONFIG}.ConfigEntry", "knownConfigs").values():
        others = entry.alternatives()
        aliases |= {others.apply(number): entry.key() for number in range(others.size())}
    return aliases


def test_no_other_name_of_a_key_allows_more_than_the_key(spark: SparkSession) -> None:
    """Over all deprecated and alternative names that the installed Spark knows."""
    aliases = _read_aliases(spark)
    assert {"spark.yarn.jar", "spark.yarn.keytab", "spark.unsafe.offHeap"} < aliases.keys()
    policy = ConfPolicy()
    for alias, key in aliases.items():
        for rules in (policy.request_rules, policy.rules):
            is_denied = find_refusal(key, rules) is not None
            assert find_refusal(alias, rules) is not None or not is_denied, (alias, key)
