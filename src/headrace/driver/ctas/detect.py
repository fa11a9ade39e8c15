"""Finding the CTAS in a statement, and running it with another target than the one it names.

Spark's own parser and analysis say what a text is; its plan is copied with another name, and no
text is changed: errors speak of what the user wrote.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame

from headrace.driver.ctas.base import Destination, TablePath
from headrace.driver.parameters import Binding, parse_statement
from headrace.driver.py4j_bridge import Py4JBridge
from headrace.model.messages import Assignment

_CTAS = "CreateTableAsSelect"
_RTAS = "ReplaceTableAsSelect"
_BY_EXPRESSION = "PlanWithUnresolvedIdentifier"
_V1 = {"CreateDataSourceTableAsSelectCommand", "CreateHiveTableAsSelectCommand"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Ctas:
    """A `CREATE [OR REPLACE] TABLE … AS SELECT` whose names and query Spark has resolved."""

    session: SparkSession
    plan: Any
    """As parsed, with the name it has; a replacement is one that creates."""
    analysed: Any
    path: TablePath
    ignore_if_exists: bool
    replaces: bool
    must_exist: bool
    provider: str | None
    location: str | None
    is_streaming: bool
    bind: Binding
    own_catalog: bool
    """Whether it is a table of Spark's own catalog and formats."""

    @property
    def properties(self) -> dict[str, str]:
        """Of the TBLPROPERTIES clause."""
        return Py4JBridge(self.session).map_of(self.plan.tableSpec().properties())

    @property
    def query(self) -> DataFrame:
        """What is selected."""
        return _frame(self.session, self.analysed.query())

    def run_into(self, destination: Destination, rows: DataFrame | None = None) -> DataFrame:
        """Runs it into another table, or other rows into it. Raises as Spark does."""
        jvm = Py4JBridge(self.session)
        spec = self.plan.tableSpec()
        properties = spec.properties()
        for key, value in destination.properties.items():
            properties = properties.updated(key, value)
        spec = spec.copy(
            properties,
            spec.provider(),
            spec.optionExpression(),
            spec.location() if destination.location is None else jvm.some(destination.location),
            spec.comment(),
            spec.collation(),
            spec.serde(),
            spec.external(),
            spec.constraints(),
        )
        name = self.plan.name().copy(jvm.sequence(destination.path.parts), False)
        query = self.plan.query() if rows is None else rows._jdf.queryExecution().analyzed()  # noqa: SLF001 - no public way to a plan
        kind = _RTAS if destination.replaces else _CTAS
        last = not self.must_exist if destination.replaces else False
        plan = _made(jvm, kind, self.plan, name, query, spec, last)
        return _frame(self.session, self.bind(plan))


def detect_ctas(session: SparkSession, assignment: Assignment) -> Ctas | None:
    """The CTAS that a statement is, or None. Raises as Spark does for what it finds wrong in it."""
    parsed_plan, bind = parse_statement(session, assignment)
    plan = parsed_plan
    if kind_of_plan(plan) not in {_CTAS, _RTAS, _BY_EXPRESSION}:
        return None
    jvm = Py4JBridge(session)
    if kind_of_plan(plan) == _RTAS:
        # Spark's own catalog knows no replacement: its analysis refuses what can be done here.
        plan = _creating(jvm, plan)
    skip = jvm.singleton("org.apache.spark.sql.execution.CommandExecutionMode").SKIP()
    analysed = jvm.state.executePlan(bind(plan), skip).analyzed()
    own = kind_of_plan(analysed) in _V1
    if not own and kind_of_plan(analysed) not in {_CTAS, _RTAS}:
        return None
    path = _v1_path(analysed) if own else _v2_path(analysed)
    if kind_of_plan(plan) == _BY_EXPRESSION:
        parsed_plan = plan.planBuilder().apply(jvm.sequence(path.parts), plan.children())
        plan = _creating(jvm, parsed_plan)
    replaces = kind_of_plan(parsed_plan) == _RTAS
    spec = plan.tableSpec()
    return Ctas(
        session=session,
        plan=plan,
        analysed=analysed,
        path=path,
        ignore_if_exists=plan.ignoreIfExists(),
        replaces=replaces,
        must_exist=replaces and not parsed_plan.orCreate(),
        provider=_option(spec.provider()),
        location=_option(spec.location()),
        is_streaming=analysed.query().isStreaming(),
        own_catalog=own,
        bind=bind,
    )


def _creating(jvm: Py4JBridge, plan: Any) -> Any:
    """The plan that creates what this one may also replace."""
    if kind_of_plan(plan) == _CTAS:
        return plan
    return _made(jvm, _CTAS, plan, plan.name(), plan.query(), plan.tableSpec(), False)


def _made(
    jvm: Py4JBridge, kind: str, of: Any, name: Any, query: Any, spec: Any, if_not_there: bool
) -> Any:
    """A plan of that kind; the last is IF NOT EXISTS of the one and OR CREATE of the other."""
    return jvm.type(f"org.apache.spark.sql.catalyst.plans.logical.{kind}")(
        name, of.partitioning(), query, spec, of.writeOptions(), if_not_there, of.isAnalyzed()
    )


def _frame(session: SparkSession, plan: Any) -> DataFrame:
    jvm = Py4JBridge(session)
    made = jvm.singleton("org.apache.spark.sql.classic.Dataset").ofRows(jvm.session, plan)
    return ClassicDataFrame(made, session)


def _v1_path(analysed: Any) -> TablePath:
    command = kind_of_plan(analysed)
    table = analysed.table() if command.startswith("CreateData") else analysed.tableDesc()
    identifier = table.identifier()
    catalog = _option(identifier.catalog()) or "spark_catalog"
    return TablePath(catalog, (identifier.database().get(),), identifier.table())


def _v2_path(analysed: Any) -> TablePath:
    resolved = analysed.name()
    identifier = resolved.identifier()
    return TablePath(resolved.catalog().name(), tuple(identifier.namespace()), identifier.name())


def kind_of_plan(plan: Any) -> str:
    """The name of its class in Spark, without its package."""
    return str(plan.getClass().getSimpleName())


def _option(value: Any) -> str | None:
    return value.get() if value.isDefined() else None
