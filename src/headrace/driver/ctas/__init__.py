"""Atomic `CREATE TABLE … AS SELECT` (CTAS): tables that appear complete or not at all."""

from headrace.driver.ctas.base import (
    ExistingTable,
    RelationKind,
    TableDefinition,
    TablePath,
    TwoPhaseCatalog,
    TwoPhaseTable,
    WriteTarget,
)
from headrace.driver.ctas.recovery import recover
from headrace.driver.ctas.transaction import Cancelled, CommitUnfinished

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
