"""Finding the CTAS in a statement, and running it with another target than the one it names.

Spark's own parser and analysis say what a text is; its plan is copied with another name, and no
text is changed: errors speak of what the user wrote.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame

from headrace.driver.ctas.contract import Destination, TablePath
from headrace.driver.parameters import parsed
from headrace.driver.state.jvm import Jvm
from headrace.model.messages import Work

_CTAS = "CreateTableAsSelect"
_BY_EXPRESSION = "PlanWithUnresolvedIdentifier"
_V1 = {"CreateDataSourceTableAsSelectCommand", "CreateHiveTableAsSelectCommand"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Ctas:
    """A `CREATE TABLE … AS SELECT` whose names and query Spark has resolved."""

    session: SparkSession
    plan: Any
    """As parsed, with the name it has."""
    analysed: Any
    path: TablePath
    ignore_if_exists: bool
    provider: str | None
    location: str | None
    partitioned: bool
    is_streaming: bool
    own_catalog: bool
    """Whether it is a table of Spark's own catalog and formats."""

    def run_into(self, destination: Destination) -> DataFrame:
        """Runs it, into another table. Raises as Spark does."""
        jvm = Jvm(self.session)
        some = jvm.root.scala.Option.apply
        spec = self.plan.tableSpec()
        properties = spec.properties()
        for key, value in destination.properties.items():
            properties = properties.updated(key, value)
        spec = spec.copy(
            properties,
            spec.provider(),
            spec.optionExpression(),
            spec.location() if destination.location is None else some(destination.location),
            spec.comment(),
            spec.collation(),
            spec.serde(),
            spec.external(),
            spec.constraints(),
        )
        name = self.plan.name().copy(jvm.sequence(destination.path.parts), False)
        plan = self.plan.copy(
            name,
            self.plan.partitioning(),
            self.plan.query(),
            spec,
            self.plan.writeOptions(),
            False,
            self.plan.isAnalyzed(),
        )
        made = jvm.singleton("org.apache.spark.sql.classic.Dataset").ofRows(jvm.session, plan)
        return ClassicDataFrame(made, self.session)


def find(session: SparkSession, work: Work) -> Ctas | None:
    """The CTAS that a statement is, or None. Raises as Spark does for what it finds wrong in it."""
    plan = parsed(session, work)
    if _name(plan) not in {_CTAS, _BY_EXPRESSION}:
        return None
    jvm = Jvm(session)
    skip = jvm.singleton("org.apache.spark.sql.execution.CommandExecutionMode").SKIP()
    analysed = jvm.state.executePlan(plan, skip).analyzed()
    own = _name(analysed) in _V1
    if not own and _name(analysed) != _CTAS:
        return None
    path = _v1_path(analysed) if own else _v2_path(analysed)
    if _name(plan) == _BY_EXPRESSION:
        plan = plan.planBuilder().apply(jvm.sequence(path.parts), plan.children())
    spec = plan.tableSpec()
    return Ctas(
        session=session,
        plan=plan,
        analysed=analysed,
        path=path,
        ignore_if_exists=plan.ignoreIfExists(),
        provider=_option(spec.provider()),
        location=_option(spec.location()),
        partitioned=not plan.partitioning().isEmpty(),
        is_streaming=analysed.query().isStreaming(),
        own_catalog=own,
    )


def _v1_path(analysed: Any) -> TablePath:
    command = _name(analysed)
    table = analysed.table() if command.startswith("CreateData") else analysed.tableDesc()
    identifier = table.identifier()
    catalog = _option(identifier.catalog()) or "spark_catalog"
    return TablePath(catalog, (identifier.database().get(),), identifier.table())


def _v2_path(analysed: Any) -> TablePath:
    resolved = analysed.name()
    identifier = resolved.identifier()
    return TablePath(resolved.catalog().name(), tuple(identifier.namespace()), identifier.name())


def _name(plan: Any) -> str:
    return str(plan.getClass().getSimpleName())


def _option(value: Any) -> str | None:
    return value.get() if value.isDefined() else None
