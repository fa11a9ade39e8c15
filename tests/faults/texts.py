"""The SQL of statements that histories submit."""

from __future__ import annotations

# One task: it takes one of two slots, so that other statements can run in parallel.
LONG = "SELECT count(*) FROM range(0, 1000000000000, 1, 1) WHERE id % 3 = 7"
SLOW = (
    "SELECT count(*) FROM range(0, 4, 1, 2)"
    " WHERE reflect('java.lang.Thread', 'sleep', 1000L) IS NULL"
)
# Spark's optimizer computes this constant on the driver: no job exists that can be cancelled.
UNCANCELLABLE = (
    "SELECT size(transform(sequence(1, 1000000),"
    " x -> aggregate(sequence(1, 1000000), 0L, (a, y) -> a + x * y)))"
)
