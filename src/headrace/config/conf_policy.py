"""The setting `conf_policy`: Spark configuration that only the operator of a node sets."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache, cached_property
from itertools import chain

from pydantic import BaseModel, ConfigDict

from headrace.config.profiles import BACKENDS
from headrace.errors import SettingDenied

RESERVED_CONF = [
    # Where drivers run, and under which identity.
    "spark.master",
    "spark.submit.*",
    "spark.remote",
    "spark.connect.*",
    "spark.api.mode",
    "spark.kubernetes.*",
    "spark.kerberos.*",
    "spark.yarn.principal",
    "spark.yarn.keytab",
    "spark.yarn.stagingDir",
    "spark.yarn.config.*",
    "spark.hadoop.yarn.*",
    "spark.hadoop.fs.defaultFS",
    "spark.hadoop.hadoop.security.*",
    "spark.hadoop.hadoop.proxyuser.*",
    # Programs, classes and credential files: the process that opens a file system uses them, and
    # spark-submit is such a process of the node.
    "spark.hadoop.dfs.client.*provider*",
    "spark.hadoop.fs.*provider*",
    "spark.hadoop.fs.*.impl",
    "spark.hadoop.fs.*.classname",
    "spark.hadoop.fs.*file",
    "spark.hadoop.fs.azure.*token.file*",
    "spark.hadoop.fs.azure.*.class",
    "spark.hadoop.fs.s3a.*signer*",
    "spark.hadoop.fs.s3a.*interceptors",
    "spark.hadoop.fs.s3a.*keyring.class*",
    "spark.hadoop.fs.s3a.*token.binding",
    "spark.hadoop.fs.s3a.*custom.factory",
    "spark.yarn.access.*",
    "spark.yarn.kerberos.*",
    "spark.yarn.services",
    "hive.server2.*",
    "*proxy.user",
    "*proxyUser",
    # Listening addresses, and who may use them.
    "spark.*.bindAddress",
    "spark.driver.host",
    "spark.driver.port",
    "spark.*blockManager.port",
    "spark.ui.*",
    "spark.authenticate*",
    "spark.network.crypto.*",
    "spark.ssl.*",
    "spark.*acls*",
    # Options and code of the processes that Spark starts.
    "spark.*.extraJavaOptions",
    "spark.*.defaultJavaOptions",
    "spark.*.extraClassPath",
    "spark.*.extraLibraryPath",
    "spark.*.userClassPathFirst",
    "spark.yarn.user.classpath.first",
    "*allowCustomClasspathInClusterMode",
    "spark.executor.plugins",
    "spark.*.discoveryScript",
    "spark.plugins*",
    "spark.extraListeners",
    "spark.pyspark.*",
    "spark.executorEnv.*",
    "spark.yarn.appMasterEnv.*",
    *chain.from_iterable(backend.reserved_conf for backend in BACKENDS.values()),
    # Paths that spark-submit or Spark read and write as the account of the node.
    "spark.jars",
    "spark.jars.*",
    "spark.files",
    "spark.archives",
    "spark.yarn.jar",
    "spark.yarn.jars",
    "spark.yarn.archive",
    "spark.yarn.dist.*",
    "spark.sql.hive.metastore.jars*",
    "spark.local.dir",
    "spark.metrics.conf*",
    # What Spark hides in logs, and from which repositories it loads code.
    "spark.redaction.*",
    "spark.sql.redaction.*",
    "spark.sql.maven.*",
]
_SQL_WORDS = """
    adaptive addPartitionInBatch allowNamedFunctionArguments alwaysInlineCommonExpr analyzer
    ansi assumeAnsiFalseIfNotPersisted autoBroadcastJoinThreshold avro binaryOutputStyle
    broadcastTimeout bucketing cartesianProductExec caseSensitive catalog cbo charAsVarchar
    chunkBase64String classic codegen columnNameOfCorruptRecord columnVector
    constraintPropagation crossJoin csv cteRecursionAnchorRowsLimitToConvertToLocalRelation
    cteRecursionLevelLimit cteRecursionRowLimit cteRelationDefMaxRows dataframeCache
    dataFrameQueryContext dataSource datetime decimalOperations defaultCacheStorageLevel
    defaultCatalog defaultColumn defaultSizeInBytes enforceTypeCoercionBeforeUnionDeduplication
    error exchange execution expressionTreeChangeLog extendedExplainProviders extensions files
    function geospatial groupByAliases groupByOrdinal iceberg icu inMemoryColumnarStorage
    inMemoryTableScanStatistics join json jsonGenerator lateralColumnAlias lazySetOperatorOutput
    leafNodeDefaultParallelism lightweightPlanChangeValidation limit mapKeyDedupPolicy
    mapZipWithUsesJavaCollections maxBroadcastTableSize maxConcurrentOutputFileWriters
    maxMetadataStringLength maxPlanStringLength maxSinglePartitionBytes mergeNestedTypeCoercion
    nameResolutionLog objectHashAggregate operatorPipeSyntaxEnabled optimizeNullAwareAntiJoin
    optimizer orc orderByOrdinal orderingAwareLimitOffset parquet parser pipelines
    pivotMaxValues planChangeLog planChangeValidation planner preserveCharVarcharTypeInfo
    prioritizeOrdinalResolutionInSort pyspark python readSideCharPadding
    requireAllClusterKeysForCoPartition requireAllClusterKeysForDistribution retainGroupColumns
    runCollationTypeCastsBeforeAliasAssignment runSQLOnFiles scripting scriptTransformation
    selfJoinAutoResolveAmbiguity session sessionWindow shuffle shuffleDependency
    shuffledHashJoinFactor sort sortMergeJoinExec sources stableDerivedColumnAlias
    stackTracesInDataFrameContext statistics storeAssignmentPolicy streaming
    subexpressionElimination timestampType timeTravelTimestampKey timeTravelVersionKey timeType
    transposeMaxValues truncateTable tvf udt unionOutputPartitioning useCommonExprIdForAlias
    variable variant view windowExec
""".split()  # noqa: SIM905 - a list would have 120 lines
"""Words that follow `spark.sql.` in keys that only change how queries of the session run."""
_DRIVER_CONF = [
    # Resources.
    "spark.cores.max",
    "spark.default.parallelism",
    "spark.driver.cores",
    "spark.driver.maxResultSize",
    "spark.driver.memory",
    "spark.driver.memoryOverhead",
    "spark.driver.memoryOverheadFactor",
    "spark.dynamicAllocation.*",
    "spark.executor.cores",
    "spark.executor.instances",
    "spark.executor.memory",
    "spark.executor.memoryOverhead",
    "spark.executor.memoryOverheadFactor",
    "spark.executor.pyspark.memory",
    "spark.executor.resource.*.amount",
    "spark.driver.resource.*.amount",
    "spark.memory.*",
    "spark.python.worker.memory",
    "spark.python.worker.reuse",
    "spark.task.cpus",
    "spark.task.maxFailures",
    "spark.task.resource.*.amount",
    "spark.yarn.priority",
    "spark.yarn.queue",
    # How tasks run, and how they exchange data.
    "spark.broadcast.*",
    "spark.excludeOnFailure.*",
    "spark.io.compression.*",
    "spark.kryoserializer.*",
    "spark.locality.*",
    "spark.network.maxRemoteBlockSizeFetchToMem",
    "spark.network.timeout",
    "spark.rdd.compress",
    "spark.reducer.*",
    "spark.rpc.message.maxSize",
    "spark.scheduler.mode",
    "spark.shuffle.compress",
    "spark.shuffle.file.buffer",
    "spark.shuffle.io.*",
    "spark.shuffle.sort.*",
    "spark.shuffle.spill.*",
    "spark.speculation*",
    "spark.stage.*",
]
"""Keys that a driver reads at its start, among those that callers may set."""
LISTED_CONF = [
    *chain.from_iterable((f"spark.sql.{word}", f"spark.sql.{word}.*") for word in _SQL_WORDS),
    "spark.sql.artifact.isolation.*",
    "spark.sql.hive.convert*",
    "spark.sql.hive.*Partition*",
    "spark.sql.hive.caseSensitiveInferenceMode",
    "spark.sql.hive.gatherFastStats",
    "spark.sql.hive.tablePropertyLengthThreshold",
    "spark.sql.legacy.*",
    *_DRIVER_CONF,
    # Formats, object stores and their credentials, which belong to the caller.
    "hive.exec.dynamic.partition*",
    "hive.exec.max.dynamic.partitions*",
    "hive.exec.compress.*",
    "spark.databricks.delta.*",
    "spark.hadoop.avro.*",
    "spark.hadoop.dfs.client.*",
    "spark.hadoop.fs.azure.*",
    "spark.hadoop.fs.gs.*",
    "spark.hadoop.fs.s3a.*",
    "spark.hadoop.mapreduce.*",
    "spark.hadoop.orc.*",
    "spark.hadoop.parquet.*",
    "spark.kafka.*",
    # Names.
    "spark.headrace.*",
    "headrace.*",
    "pstl.*",
    "spark.pstl.*",
    "spark.metrics.namespace",
]
"""Patterns of the keys that callers may set in a request.

No key is here that Spark reads for another one, such as `spark.yarn.jar` for `spark.yarn.jars`, and
a key of a later version of Spark is allowed only if it begins like one of these.
"""


LAUNCH_CONF = [
    *_DRIVER_CONF,
    "spark.master",
    "spark.submit.*",
    "spark.driver.*",
    "spark.executor.*",
    "spark.kubernetes.*",
    "spark.yarn.*",
    "spark.ui.*",
    "spark.plugins*",
    "spark.extraListeners",
    "spark.jars",
    "spark.jars.*",
    "spark.files",
    "spark.archives",
    # Spark's static configuration (StaticSQLConf).
    "spark.sql.cache.serializer",
    "spark.sql.catalog.spark_catalog.defaultDatabase",
    "spark.sql.catalogImplementation",
    "spark.sql.codegen.cache.maxEntries",
    "spark.sql.codegen.comments",
    "spark.sql.debug",
    "spark.sql.defaultUrlStreamHandlerFactory.enabled",
    "spark.sql.event.truncate.length",
    "spark.sql.extensions",
    "spark.sql.extensions.*",
    "spark.sql.filesourceTableRelationCacheSize",
    "spark.sql.globalTempDatabase",
    "spark.sql.hive.metastore.*",
    "spark.sql.hive.thriftServer.singleSession",
    "spark.sql.hive.version",
    "spark.sql.metadataCacheTTLSeconds",
    "spark.sql.queryExecutionListeners",
    "spark.sql.sources.disabledJdbcConnProviderList",
    "spark.sql.sources.schemaStringLengthThreshold",
    "spark.sql.streaming.streamingQueryListeners",
    "spark.sql.streaming.ui.*",
    "spark.sql.ui.retainedExecutions",
    "spark.sql.warehouse.dir",
    "spark.sql.*.maxThreadThreshold",
]
"""Patterns of keys that act only when a driver starts. The driver of a connection runs already."""


class ConfPolicy(BaseModel):
    """Which Spark configuration the callers of a node may set for sessions and statements.

    A request may set the keys that Headrace lists (`LISTED_CONF`), unless `deny` matches them, and
    those that `allow` matches. SQL may SET what neither `deny` nor `force` names: the driver runs
    already, and Spark itself refuses keys that it has read.

    A pattern is a key in which `*` stands for any characters. The embedded node has no policy,
    because its user is its operator.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    deny: list[str] = RESERVED_CONF
    """Patterns of keys that only the operator sets, in a profile. A list in the settings replaces
    the default."""
    allow: list[str] = []
    """Patterns of further keys that callers may set, also if `deny` matches them."""
    force: dict[str, str] = {}
    """Values for every session. They override those of profiles, and callers cannot change them."""

    @cached_property
    def rules(self) -> list[ConfRule]:
        """The rules of the policy. For each key, the first rule that matches it applies."""
        return _list_rules(self)

    @cached_property
    def request_rules(self) -> list[ConfRule]:
        """The rules for the keys of a request, which the policy must list."""
        return [*self.rules, _listed(), _UNLISTED]


NO_CONF_POLICY = ConfPolicy(deny=[], allow=["*"])
"""Every key is allowed."""

_HADOOP = "spark.hadoop."


class ConfRule(BaseModel):
    """A rule on the keys that callers may set, in a form that Python and Java apply alike."""

    model_config = ConfigDict(frozen=True)

    pattern: str
    """Regular expression that matches the whole of each key to which the rule applies."""
    code: str | None = None
    """Code of the error for these keys; None: they are allowed."""
    message: str = ""
    """Message of the error, in which `{key}` stands for the key."""
    hint: str = ""
    """What the caller can do."""

    def refusal(self, key: str) -> str:
        """Return the message of the error for a key."""
        return self.message.replace("{key}", key)


def _list_rules(policy: ConfPolicy) -> list[ConfRule]:
    forced = [
        ConfRule(
            pattern=_forbid(key),
            code=SettingDenied.code,
            message="'{key}' has a value that the operator of the node has set for every session"
            " (conf_policy.force).",
        )
        for key in policy.force
    ]
    allowed = [ConfRule(pattern=f"(?s){_to_regex(pattern)}") for pattern in policy.allow]
    denied = [
        ConfRule(
            pattern=_forbid(pattern),
            code=SettingDenied.code,
            message="'{key}' is reserved for the operator of the node (pattern"
            f" {pattern!r} of conf_policy.deny).",
            hint="Use a profile that sets the key, or ask the operator to list it in"
            " conf_policy.allow.",
        )
        for pattern in policy.deny
    ]
    return [*forced, *allowed, *denied]


_UNLISTED = ConfRule(
    pattern=r"(?s).*",
    code=SettingDenied.code,
    message="'{key}' is not among the keys of Spark that callers may set (conf_policy).",
    hint="Use the present name of the key, a profile that sets it, or ask the operator to list it"
    " in conf_policy.allow.",
)
"""The rule for a key that no other rule names."""


@cache
def _listed() -> ConfRule:
    """Return the rule that allows the keys of LISTED_CONF."""
    return ConfRule(pattern=f"(?s){'|'.join(map(_to_regex, LISTED_CONF))}")


@cache
def _launch_pattern() -> re.Pattern[str]:
    return re.compile("|".join(map(_to_regex, LAUNCH_CONF)), re.DOTALL)


def is_launch_key(key: str) -> bool:
    """Return whether a key acts only when a driver starts."""
    return _launch_pattern().fullmatch(key) is not None


def find_refusal(key: str, rules: Iterable[ConfRule]) -> ConfRule | None:
    """Return the rule that forbids a key; None if the key is allowed."""
    rule = next((rule for rule in rules if re.fullmatch(rule.pattern, key)), None)
    return None if rule is None or rule.code is None else rule


def _forbid(pattern: str) -> str:
    """Return the regular expression of keys that a rule forbids, in any case of letters.

    Spark and data sources ignore the case of some keys, for example that of options of catalogs.
    """
    return f"(?is){_to_regex(pattern)}"


def _to_regex(pattern: str) -> str:
    """Return the regular expression of a pattern.

    A property of Hadoop or Hive has several names. Spark passes every key of a session on to
    Hadoop's file systems, so that `SET fs.defaultFS` does what `spark.hadoop.fs.defaultFS` does;
    and it reads `spark.hive.x` and `spark.hadoop.hive.x` as `hive.x`.
    """
    name = pattern.removeprefix(_HADOOP)
    is_property = name != pattern or name.startswith("hive.")
    prefix = r"(?:spark\.hadoop\.|spark\.(?=hive\.))?" if is_property else ""
    return prefix + ".*".join(map(re.escape, name.split("*")))
