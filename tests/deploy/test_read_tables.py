"""The tables that a query reads, found in its text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.deploy.read_tables import list_read_names

CASES = {
    "one": ("SELECT a FROM Sales", "Sales"),
    "parts": ("SELECT * FROM lake . `My db`.t x", "lake.My db.t"),
    "list": ("SELECT * FROM a x, b AS y, (SELECT * FROM c) z WHERE x.i IN (1, 2), d", "a b c"),
    "joins": (
        "SELECT * FROM a LEFT JOIN b ON a.x = b.y, c JOIN d USING (x, y) JOIN e",
        "a b c d e",
    ),
    "brackets": ("SELECT * FROM ((a JOIN b) CROSS JOIN (c))", "a b c"),
    "union": ("SELECT 1 FROM a UNION ALL SELECT x, y FROM b ORDER BY x, y", "a b"),
    "subqueries": (
        "SELECT (SELECT max(x) FROM a) FROM b WHERE EXISTS (SELECT 1 FROM c, d) OR z IN (TABLE e)",
        "a b c d e",
    ),
    "functions": ("SELECT * FROM range(3), LATERAL explode(x) t, a", "a"),
    "from in functions": (
        "SELECT trim(BOTH ' ' FROM c), x IS NOT DISTINCT FROM e, trim((SELECT f FROM g)) FROM a",
        "g a",
    ),
    "lateral view": ("SELECT * FROM a LATERAL VIEW explode(m) t AS k, v WHERE k > 0", "a"),
    "cte": ("WITH c AS (SELECT * FROM a), d(x, y) AS (SELECT * FROM c, b) SELECT * FROM D", "a b"),
    "cte of the same name": ("WITH a AS (SELECT * FROM a) SELECT * FROM a", "a"),
    "cte of a subquery": ("SELECT * FROM (WITH c AS (SELECT 1) SELECT * FROM c), c", "c"),
    "recursive": ("WITH RECURSIVE r AS (SELECT 1 UNION SELECT * FROM r, a) TABLE r", "a"),
    "values": ("SELECT * FROM VALUES (1, 2), (3, 4) AS t(a, b) JOIN u", "u"),
    "from first": ("FROM a JOIN b SELECT x, y", "a b"),
    "pipes": ("FROM a |> JOIN b |> EXTEND x, y |> WHERE z", "a b"),
    "time travel": ("SELECT * FROM a VERSION AS OF 3, b TIMESTAMP AS OF now()", "a b"),
    "comments and strings": ("SELECT 'FROM x' -- FROM y\n, '\"' FROM /* z */ a", "a"),
    "columns": ("SELECT t.from, t.join, t.with FROM t", "t"),
    "files": ("SELECT * FROM parquet.`s3://b/x`", "parquet.s3://b/x"),
    "window": ("SELECT sum(x) OVER w FROM a WINDOW w AS (ORDER BY b), v AS (ORDER BY c)", "a"),
    "keywords as names": ("SELECT * FROM view, map m JOIN window", "view map window"),
    "nothing": ("SELECT 1", ""),
    "unclosed": ("SELECT * FROM a) FROM", "a"),
}


@pytest.mark.parametrize(("query", "names"), CASES.values(), ids=CASES)
def test_tables_are_found_and_nothing_else(query: str, names: str) -> None:
    found = [".".join(parts) for parts in list_read_names(query)]
    assert found == (names.split() if " db" not in names else [names])


_WORDS = "SELECT FROM JOIN WITH AS ( ) , . a `b` 'c' LATERAL VIEW TABLE VALUES |> TRIM /* \""


@given(st.lists(st.sampled_from(_WORDS.split())).map(" ".join))
def test_any_text_is_read(text: str) -> None:
    assert all(map(all, list_read_names(text)))
