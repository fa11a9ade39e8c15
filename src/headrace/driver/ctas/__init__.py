"""Atomic `CREATE TABLE … AS SELECT` (CTAS): tables that appear complete or not at all."""

from headrace.driver.ctas.base import (
    ExistingTable,
    TableDefinition,
    TwoPhaseCatalog,
    TwoPhaseTable,
)
from headrace.driver.ctas.recovery import recover
from headrace.driver.ctas.transaction import Cancelled, CommitUnfinished
from headrace.driver.spark_version.catalogs import RelationKind, TablePath
from headrace.driver.spark_version.ctas_plan import WriteTarget

__all__ = [
    "Cancelled",
    "CommitUnfinished",
    "ExistingTable",
    "RelationKind",
    "TableDefinition",
    "TablePath",
    "TwoPhaseCatalog",
    "TwoPhaseTable",
    "WriteTarget",
    "recover",
]
