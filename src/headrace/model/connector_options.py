"""Names of the options of streaming sources and sinks, as Spark and its connectors document them.

Spark ignores an option that it does not know, so that a misspelt option has no effect. Headrace
refuses it instead.
"""

from __future__ import annotations

_FILE_SOURCE = frozenset(
    {
        *("path", "maxFilesPerTrigger", "maxBytesPerTrigger", "maxFileAge", "latestFirst"),
        *("fileNameOnly", "cleanSource", "sourceArchiveDir", "maxCachedFiles"),
        *("discardCachedInputRatio", "basePath", "pathGlobFilter", "recursiveFileLookup"),
        *("modifiedBefore", "modifiedAfter", "ignoreCorruptFiles", "ignoreMissingFiles"),
    }
)
_FILE_SINK = frozenset({"path", "retention", "maxRecordsPerFile", "compression"})

_TEXT_DATES = frozenset({"dateFormat", "timestampFormat", "timestampNTZFormat", "timeZone"})

JSON_PARSING = _TEXT_DATES | {
    *("primitivesAsString", "prefersDecimal", "allowComments", "allowUnquotedFieldNames"),
    *("allowSingleQuotes", "allowNumericLeadingZeros", "allowBackslashEscapingAnyCharacter"),
    *("allowNonNumericNumbers", "allowUnquotedControlChars", "mode", "columnNameOfCorruptRecord"),
    *("locale", "dropFieldIfAllNull", "enableDateTimeParsingFallback"),
}
"""Options with which Spark parses JSON."""
JSON_WRITING = _TEXT_DATES | {"ignoreNullFields", "writeNonAsciiCharacterAsCodePoint"}
"""Options with which Spark writes JSON."""

_CSV_BOTH = _TEXT_DATES | {
    *("sep", "delimiter", "encoding", "charset", "quote", "escape", "charToEscapeQuoteEscaping"),
    *("comment", "nullValue", "emptyValue", "ignoreLeadingWhiteSpace"),
    *("ignoreTrailingWhiteSpace", "lineSep"),
}
CSV_PARSING = _CSV_BOTH | {
    *("enforceSchema", "nanValue", "positiveInf", "negativeInf", "maxColumns", "maxCharsPerColumn"),
    *("mode", "columnNameOfCorruptRecord", "multiLine", "locale", "unescapedQuoteHandling"),
    *("enableDateTimeParsingFallback", "preferDate"),
}
"""Options with which Spark parses CSV."""
CSV_WRITING = _CSV_BOTH | {"quoteAll", "escapeQuotes"}
"""Options with which Spark writes CSV."""

_AVRO = frozenset({"avroSchema", "avroSchemaUrl", "datetimeRebaseMode", "positionalFieldMatching"})
AVRO_PARSING = _AVRO | {"mode", "enableStableIdentifiersForUnionType", "recursiveFieldMaxDepth"}
"""Options with which Spark parses Avro."""
AVRO_WRITING = _AVRO | {"recordName", "recordNamespace"}
"""Options with which Spark writes Avro."""

KAFKA_SOURCE = frozenset(
    {
        *("assign", "subscribe", "subscribePattern", "startingOffsets", "startingTimestamp"),
        *("startingOffsetsByTimestamp", "startingOffsetsByTimestampStrategy", "failOnDataLoss"),
        *("fetchOffset.numRetries", "fetchOffset.retryIntervalMs", "maxOffsetsPerTrigger"),
        *("minOffsetsPerTrigger", "maxTriggerDelay", "minPartitions", "maxRecordsPerPartition"),
        *("groupIdPrefix", "includeHeaders", "kafkaConsumer.pollTimeoutMs"),
    }
)
KAFKA_SINK = frozenset({"topic", "includeHeaders"})
KAFKA_PREFIX = "kafka."
"""Prefix of the options that go to the Kafka client."""

JSON_SOURCE = _FILE_SOURCE | JSON_PARSING | {"encoding", "lineSep", "multiLine", "samplingRatio"}
JSON_SINK = _FILE_SINK | JSON_WRITING | {"encoding", "lineSep"}
CSV_SOURCE = _FILE_SOURCE | CSV_PARSING | {"header", "inferSchema", "samplingRatio"}
CSV_SINK = _FILE_SINK | CSV_WRITING | {"header"}
TEXT_SOURCE = _FILE_SOURCE | {"wholetext", "lineSep", "encoding"}
TEXT_SINK = _FILE_SINK | {"lineSep", "encoding"}
PARQUET_SOURCE = _FILE_SOURCE | {"mergeSchema", "datetimeRebaseMode", "int96RebaseMode"}
PARQUET_SINK = _FILE_SINK
ORC_SOURCE = _FILE_SOURCE | {"mergeSchema"}
ORC_SINK = _FILE_SINK
AVRO_SOURCE = _FILE_SOURCE | AVRO_PARSING | {"ignoreExtension"}
AVRO_SINK = _FILE_SINK | AVRO_WRITING

RATE = frozenset({"rowsPerSecond", "rampUpTime", "numPartitions"})
RATE_MICRO_BATCH = frozenset(
    {"rowsPerBatch", "numPartitions", "startTimestamp", "advanceMillisPerBatch"}
)
SOCKET = frozenset({"host", "port", "includeTimestamp"})

DELTA_SOURCE = frozenset(
    {
        *("path", "maxFilesPerTrigger", "maxBytesPerTrigger", "ignoreDeletes", "ignoreChanges"),
        *("skipChangeCommits", "startingVersion", "startingTimestamp", "readChangeFeed"),
        *("readChangeData", "failOnDataLoss", "schemaTrackingLocation", "schemaLocation"),
        *("excludeRegex", "withEventTimeOrder"),
    }
)
DELTA_SINK = frozenset(
    {"path", "mergeSchema", "overwriteSchema", "maxRecordsPerFile", "compression", "userMetadata"}
)
ICEBERG_SOURCE = frozenset(
    {
        *("path", "stream-from-timestamp", "streaming-skip-delete-snapshots"),
        *("streaming-skip-overwrite-snapshots", "streaming-max-files-per-micro-batch"),
        *("streaming-max-rows-per-micro-batch", "split-size", "lookback", "file-open-cost"),
    }
)
ICEBERG_SINK = frozenset(
    {
        *("path", "fanout-enabled", "check-nullability", "check-ordering", "write-format"),
        *("target-file-size-bytes", "compression-codec", "compression-level", "merge-schema"),
        *("distribution-mode", "branch"),
    }
)

CONSOLE = frozenset({"numRows", "truncate"})
JDBC = frozenset(
    {
        *("url", "dbtable", "user", "password", "driver", "batchsize", "isolationLevel"),
        *("numPartitions", "queryTimeout", "sessionInitStatement", "createTableColumnTypes"),
        *("keytab", "principal", "refreshKrb5Config", "connectionProvider"),
    }
)

_RATES = frozenset(
    {
        *("maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay", "minPartitions"),
        *("maxRecordsPerPartition", "maxFilesPerTrigger", "maxBytesPerTrigger", "maxCachedFiles"),
        *("discardCachedInputRatio", "rowsPerSecond", "rampUpTime", "numPartitions"),
        *("streaming-max-files-per-micro-batch", "streaming-max-rows-per-micro-batch"),
        *("split-size", "lookback", "file-open-cost", "batchsize"),
    }
)
_ACCESS = frozenset(
    {
        *("user", "password", "driver", "keytab", "principal", "refreshKrb5Config"),
        *("connectionProvider", "queryTimeout", "fetchOffset.numRetries"),
        *("fetchOffset.retryIntervalMs", "kafkaConsumer.pollTimeoutMs", "groupIdPrefix"),
        "checkpointLocation",
    }
)
_TUNING = frozenset(name.lower() for name in _RATES | _ACCESS)
_TUNING_PREFIXES = (KAFKA_PREFIX, "headrace.retry.", "pstl.retry.")
_BROKERS = "kafka.bootstrap.servers"


def is_tuning_option(key: str) -> bool:
    """Return whether an option only says how data is read or written: rates, access, retries.

    A query continues from its state when such an option changes. Every other option can change
    which data it reads or writes.
    """
    lowered = key.lower()
    return lowered in _TUNING or (lowered.startswith(_TUNING_PREFIXES) and lowered != _BROKERS)
