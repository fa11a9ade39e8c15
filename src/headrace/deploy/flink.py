"""Manifests of Flink's SQL runner, from which Headrace's manifests come: `flinkProperties`.

The keys are those of Flink's documentation (1.13 to 2.0).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from headrace.deploy.problems import Findings, Place
from headrace.deploy.variables import escape_variables
from headrace.deploy.yaml_values import YamlEntry, YamlMapping, YamlScalar
from headrace.grammar.lexer import Token, TokenKind, code_tokens

FLINK_KEY = "flinkProperties"
_INTERVAL = "execution.checkpointing.interval"
_PARALLELISM = "parallelism.default"
_NAME = "pipeline.name"
_STATE_DIRECTORIES = frozenset(
    {
        *("state.checkpoints.dir", "state.savepoints.dir"),
        *("execution.checkpointing.dir", "execution.checkpointing.savepoint-dir"),
    }
)
_STATE_STORE = "org.apache.spark.sql.execution.streaming.state."
_ROCKSDB = f"{_STATE_STORE}RocksDBStateStoreProvider"
_IN_MEMORY = f"{_STATE_STORE}HDFSBackedStateStoreProvider"
_BACKEND_KEYS = ("state.backend", "state.backend.type")
_BACKENDS = {
    **dict.fromkeys(("rocksdb", "forst"), _ROCKSDB),
    **dict.fromkeys(("hashmap", "filesystem", "jobmanager"), _IN_MEMORY),
}
"""Names of Flink's state backends, with Spark's provider of state stores."""
_SAME_VALUE = {
    _PARALLELISM: "spark.sql.shuffle.partitions",
    **dict.fromkeys(
        ("state.backend.incremental", "execution.checkpointing.incremental"),
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled",
    ),
    **dict.fromkeys(
        ("state.checkpoints.num-retained", "execution.checkpointing.num-retained"),
        "spark.sql.streaming.minBatchesToRetain",
    ),
}
"""Properties whose counterpart on Spark has the same values."""
_RETENTION = "execution.checkpointing.externalized-checkpoint-retention"
_IGNORED = {
    **dict.fromkeys(_STATE_DIRECTORIES, "State is kept in the state location."),
    "state.backend.rocksdb.localdir": (
        "Spark keeps the files of RocksDB in its local directories (spark.local.dir)."
    ),
    "execution.checkpointing.mode": "The sink decides how often a row is written at most.",
    _RETENTION: "The checkpoints of a stopped job are always kept.",
}
"""Why these properties are ignored."""
_STRATEGY_KEYS = ("restart-strategy", "restart-strategy.type")
_STRATEGY_PREFIX = "restart-strategy."
_STRATEGIES = {
    **dict.fromkeys(("none", "off", "disable"), "none"),
    **dict.fromkeys(("fixeddelay", "fixed-delay"), "fixed-delay"),
    **dict.fromkeys(("exponentialdelay", "exponential-delay"), "exponential-delay"),
    **dict.fromkeys(("failurerate", "failure-rate"), "failure-rate"),
}
"""Names of restart strategies, with one spelling of each."""
_UNITS = {
    **dict.fromkeys(("ms", "milli", "millis", "millisecond", "milliseconds", ""), "ms"),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), "s"),
    **dict.fromkeys(("m", "min", "minute", "minutes"), "min"),
    **dict.fromkeys(("h", "hour", "hours"), "h"),
    **dict.fromkeys(("d", "day", "days"), "d"),
}
"""Flink's units, with Headrace's spelling. A number without a unit counts milliseconds."""
_TRIGGER_UNITS = {"ms": "millisecond", "s": "second", "min": "minute", "h": "hour", "d": "day"}
_DURATION = re.compile(r"\s*([0-9]+)\s*([A-Za-z]*)\s*")
_RETRY = "spark.headrace.retry."
_STATE_CONF = "spark.sql.streaming.stateStore."


@dataclass(frozen=True, slots=True)
class _Duration:
    count: int
    unit: str

    def to_trigger(self) -> str:
        return f"{self.count} {_TRIGGER_UNITS[self.unit]}{'' if self.count == 1 else 's'}"

    def to_property(self) -> str:
        return f"{self.count}{self.unit}"


def translate_flink(manifest: YamlMapping, findings: Findings) -> YamlMapping:
    """Return a manifest with `spark-properties` and `trigger` instead of `flinkProperties`.

    What the manifest itself says wins. Properties without a counterpart are notes.

    Args:
        manifest: The manifest, merged with its template, with the values of variables.
        findings: Receives the notes, and problems with values.
    """
    properties = manifest.find(FLINK_KEY)
    if properties is None:
        return manifest
    entries = {key: entry for key, entry in manifest.entries.items() if key != FLINK_KEY}
    if not isinstance(properties, YamlMapping):
        message = f"`{FLINK_KEY}` must be a mapping of properties to values."
        findings.add_problem(properties.place, "invalid_value", message)
        return YamlMapping(entries, manifest.place)
    translation = _Translation(manifest, properties, findings)
    translation.run()
    if translation.trigger is not None:
        entries.setdefault("trigger", translation.trigger)
    _add_spark_properties(entries, translation.spark, properties)
    return YamlMapping(entries, manifest.place)


def _add_spark_properties(
    entries: dict[str, YamlEntry], spark: Mapping[str, YamlEntry], properties: YamlMapping
) -> None:
    own = entries.get("spark-properties")
    if own is None:
        if spark:
            place = properties.place
            entries["spark-properties"] = YamlEntry(place, YamlMapping(dict(spark), place))
    elif isinstance(own.value, YamlMapping):
        merged = YamlMapping({**spark, **own.value.entries}, own.value.place)
        entries["spark-properties"] = YamlEntry(own.key_place, merged)


class _Translation:
    """The translation of the properties of one manifest."""

    def __init__(self, manifest: YamlMapping, properties: YamlMapping, findings: Findings) -> None:
        self._manifest = manifest
        self._findings = findings
        self.trigger: YamlEntry | None = None
        self.spark: dict[str, YamlEntry] = {}
        self._scalars = dict[str, tuple[Place, YamlScalar]]()
        for key, entry in properties.entries.items():
            if isinstance(entry.value, YamlScalar):
                self._scalars[key] = entry.key_place, entry.value
            else:
                message = f"{FLINK_KEY}: `{key}` must be a text, a number or a boolean."
                findings.add_problem(entry.value.place, "invalid_value", message)

    def run(self) -> None:
        """Translate all properties."""
        strategy = self._find_strategy()
        for key, (place, scalar) in self._scalars.items():
            if key in _STRATEGY_KEYS:
                self._set_strategy(key, place, scalar)
            elif key.startswith(_STRATEGY_PREFIX):
                self._set_retry(key, place, scalar, strategy)
            elif key == _INTERVAL:
                self._set_trigger(place, scalar)
            elif key in _SAME_VALUE:
                self.spark[_SAME_VALUE[key]] = YamlEntry(place, scalar)
            elif key in _BACKEND_KEYS:
                self._set_state_store(key, place, scalar)
            elif key == _NAME:
                self._compare_name(place, scalar)
            else:
                self._note_ignored(place, key)

    def _note_ignored(self, place: Place, key: str) -> None:
        message = "has no counterpart on Spark and is ignored."
        if key in _IGNORED:
            message = f"is ignored. {_IGNORED[key]}"
        self._note(place, key, message)

    def _set_state_store(self, key: str, place: Place, scalar: YamlScalar) -> None:
        provider = _BACKENDS.get(scalar.text.lower())
        if provider is None:
            self._note(place, key, f"{scalar.written} has no counterpart on Spark and is ignored.")
        else:
            self._set(f"{_STATE_CONF}providerClass", place, scalar, provider)

    def _find_strategy(self) -> str | None:
        """Return the restart strategy. Without one, its options tell."""
        for key in _STRATEGY_KEYS:
            if key in self._scalars:
                return _STRATEGIES.get(self._scalars[key][1].text.lower())
        names = {key.split(".")[1] for key in self._scalars if key.startswith(_STRATEGY_PREFIX)}
        return next((name for name in ("exponential-delay", "fixed-delay") if name in names), None)

    def _set_strategy(self, key: str, place: Place, scalar: YamlScalar) -> None:
        strategy = _STRATEGIES.get(scalar.text.lower())
        if strategy == "none":
            self._set(f"{_RETRY}enabled", place, scalar, "false")
        elif strategy in {None, "failure-rate"}:
            self._note(place, key, f"{scalar.written} has no counterpart on Spark and is ignored.")

    def _set_retry(self, key: str, place: Place, scalar: YamlScalar, strategy: str | None) -> None:
        owner, _, option = key.removeprefix(_STRATEGY_PREFIX).partition(".")
        setter = _RETRY_OPTIONS.get((owner, option))
        if setter is None:
            self._note(place, key, "has no counterpart on Spark and is ignored.")
        elif owner == strategy:
            # Options of another strategy have no effect in Flink either.
            setter(self, key, place, scalar)

    def _set_trigger(self, place: Place, scalar: YamlScalar) -> None:
        if "script" in self._manifest.entries:
            self._note(
                place, _INTERVAL, "is ignored. Write TRIGGER into the SAVE STREAM statements."
            )
            return
        duration = self._read_duration(_INTERVAL, scalar)
        if duration is not None:
            self.trigger = YamlEntry(place, _convert(scalar, duration.to_trigger()))

    def _compare_name(self, place: Place, scalar: YamlScalar) -> None:
        name = self._manifest.find("name")
        if not isinstance(name, YamlScalar) or name.text != scalar.text:
            self._note(place, _NAME, "is ignored. The key `name` names the job.")

    def set_attempts(self, _key: str, place: Place, scalar: YamlScalar) -> None:
        self.spark[f"{_RETRY}max.attempts"] = YamlEntry(place, scalar)

    def set_factor(self, _key: str, place: Place, scalar: YamlScalar) -> None:
        self.spark[f"{_RETRY}random.factor"] = YamlEntry(place, scalar)

    def set_delay(self, key: str, place: Place, scalar: YamlScalar) -> None:
        for suffix in ("min.backoff", "max.backoff"):
            self._set_duration(suffix, key, place, scalar)

    def set_first_delay(self, key: str, place: Place, scalar: YamlScalar) -> None:
        self._set_duration("min.backoff", key, place, scalar)

    def set_longest_delay(self, key: str, place: Place, scalar: YamlScalar) -> None:
        self._set_duration("max.backoff", key, place, scalar)

    def set_healthy_period(self, key: str, place: Place, scalar: YamlScalar) -> None:
        self._set_duration("healthy.period", key, place, scalar)

    def check_multiplier(self, key: str, place: Place, scalar: YamlScalar) -> None:
        if scalar.text.rstrip("0").rstrip(".") != "2":
            self._note(place, key, "is ignored. Each delay is twice the one before.")

    def _set_duration(self, suffix: str, key: str, place: Place, scalar: YamlScalar) -> None:
        duration = self._read_duration(key, scalar)
        if duration is not None:
            self._set(f"{_RETRY}{suffix}", place, scalar, duration.to_property())

    def _set(self, key: str, place: Place, scalar: YamlScalar, text: str) -> None:
        self.spark[key] = YamlEntry(place, _convert(scalar, text))

    def _read_duration(self, key: str, scalar: YamlScalar) -> _Duration | None:
        match = _DURATION.fullmatch(scalar.text)
        unit = None if match is None else _UNITS.get(match[2].lower())
        if match is None or unit is None:
            self._findings.add_problem(
                scalar.place,
                "invalid_value",
                f"{FLINK_KEY}: `{key}` is {scalar.written!r}, which is not a duration.",
                "Write a number and a unit, for example 60s. Units: ms, s, min, h, d.",
            )
            return None
        return _Duration(int(match[1]), unit)

    def _note(self, place: Place, key: str, message: str) -> None:
        self._findings.add_note(place, f"{FLINK_KEY}: `{key}` {message}")


_RETRY_OPTIONS: Mapping[tuple[str, str], Callable[[_Translation, str, Place, YamlScalar], None]] = {
    ("fixed-delay", "attempts"): _Translation.set_attempts,
    ("fixed-delay", "delay"): _Translation.set_delay,
    ("exponential-delay", "initial-backoff"): _Translation.set_first_delay,
    ("exponential-delay", "max-backoff"): _Translation.set_longest_delay,
    ("exponential-delay", "jitter-factor"): _Translation.set_factor,
    ("exponential-delay", "reset-backoff-threshold"): _Translation.set_healthy_period,
    ("exponential-delay", "backoff-multiplier"): _Translation.check_multiplier,
    ("exponential-delay", "attempts-before-reset-backoff"): _Translation.set_attempts,
}
"""What sets the counterpart of an option, by strategy and option."""


def _convert(scalar: YamlScalar, text: str) -> YamlScalar:
    return replace(scalar, text=text, written=escape_variables(text), source=None)


_TIMES = frozenset({"TIMESTAMP", "TIMESTAMP_LTZ", "TIMESTAMP_NTZ", "TIME"})
_TABLE = (
    "a table that jobs read is CREATE STREAM name (column type, …) FROM kafka"
    " OPTIONS ('subscribe' = 'topic', 'kafka.bootstrap.servers' = 'host:port'), and one that they"
    " write is CREATE SINK name TO kafka OPTIONS ('topic' = 'topic', …), in place of"
    " WITH ('connector' = …)"
)
_WATERMARK = (
    "a watermark belongs to the query: FROM STREAM t WATERMARK c DELAY OF INTERVAL 5 SECONDS"
)


def explain_flink_ddl(text: str) -> str | None:
    """Return what to write in place of Flink's clauses in a CREATE TABLE; None if it has none."""
    tokens = list(code_tokens(text))
    words = [token.word for token in tokens]
    if "CREATE" not in words[:1] or "TABLE" not in words[:4]:
        return None
    advice = list[str]()
    if any(_has_precision(words, at) for at in range(len(words))):
        advice.append("the types of time have no precision: TIMESTAMP in place of TIMESTAMP(3)")
    if any(words[at : at + 2] == ["WATERMARK", "FOR"] for at in range(len(words))):
        advice.append(_WATERMARK)
    if any(_begins_properties(text, tokens, at) for at in range(len(tokens))):
        advice.append(_TABLE)
    return f"This is the DDL of Flink. On Spark, {'; '.join(advice)}." if advice else None


def _has_precision(words: list[str], at: int) -> bool:
    window = words[at : at + 4]
    if len(window) < 4:
        return False
    name, begin, digits, end = window
    return name in _TIMES and (begin, end) == ("(", ")") and digits.isdecimal()


def _begins_properties(text: str, tokens: list[Token], at: int) -> bool:
    """Return whether `WITH ('key' = …` begins here."""
    window = tokens[at : at + 3]
    if [token.word for token in window[:2]] != ["WITH", "("] or len(window) < 3:
        return False
    key = window[2]
    return key.kind is TokenKind.QUOTED and text[key.start] == "'"
