"""Tables that appear whole or not at all: `CREATE TABLE … AS SELECT` in two phases."""

from headrace.driver.ctas.contract import (
    Destination,
    TableDefinition,
    TablePath,
    TwoPhaseCatalog,
    TwoPhaseTable,
    UntouchedTable,
)
from headrace.driver.ctas.course import Course, course_of, nothing
from headrace.driver.ctas.ctas_hook import Unfinished
from headrace.driver.ctas.hooks import StatementFacts, StatementHook
from headrace.driver.ctas.journal import Cancelled
from headrace.driver.ctas.recovery import recover

__all__ = [
    "Cancelled",
    "Course",
    "Destination",
    "StatementFacts",
    "StatementHook",
    "TableDefinition",
    "TablePath",
    "TwoPhaseCatalog",
    "TwoPhaseTable",
    "Unfinished",
    "UntouchedTable",
    "course_of",
    "nothing",
    "recover",
]
