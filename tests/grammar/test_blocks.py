from __future__ import annotations

import pytest

from headrace.grammar.script import split_script


def texts(script: str) -> list[str]:
    return [statement.text for statement in split_script(script)]


@pytest.mark.parametrize(
    "script",
    [
        "BEGIN END",
        "begin not atomic select 1; end",
        "outer_one: BEGIN SELECT 1; END outer_one",
        "BEGIN IF a THEN b; ELSEIF c THEN d; ELSE e; END IF; END",
        "BEGIN CASE a WHEN 1 THEN b; WHEN CASE WHEN c THEN 2 END THEN d; ELSE e; END CASE; END",
        "BEGIN WHILE (CASE WHEN a THEN b END) DO LOOP c; END LOOP; END WHILE; END",
        "BEGIN REPEAT a; UNTIL CASE b WHEN 1 THEN c END = 2 END REPEAT; END",
        "BEGIN FOR r AS SELECT a end FROM t ORDER BY b DESC DO IF c THEN d; END IF; END FOR; END",
        "BEGIN DECLARE EXIT HANDLER FOR SQLSTATE '1' '2', NOT FOUND, a.b BEGIN c; END; d; END",
        "BEGIN DECLARE CONTINUE HANDLER FOR SQLEXCEPTION SET end = 1; END",
        "BEGIN DECLARE end INT; DECLARE c CONDITION FOR SQLSTATE '1'; END",
        "BEGIN SELECT end, begin, case FROM if; SET end = 1; END",
        "BEGIN begin: BEGIN a; END begin; end: LOOP b; END LOOP end; END",
        "BEGIN if: BEGIN a; END if; loop: BEGIN b; END loop; END",
        "BEGIN IDENTIFIER('l'): BEGIN a; END IDENTIFIER('l'); END",
        "BEGIN SELECT :loop IS NULL; select: LOOP a; END LOOP select; END",
        "BEGIN IF end > 1 AND a.case THEN b; END IF; WHILE do DO c; END WHILE; END",
        "BEGIN REPEAT a; UNTIL 3 = end END REPEAT; IF case = then THEN b; END IF; END",
        "BEGIN FOR r AS FROM t |> SELECT * DO IF a THEN b; END IF; END FOR; END",
        "BEGIN IF a IS NOT DISTINCT FROM CASE WHEN b THEN 1 END THEN c; END IF; END",
        "BEGIN IF EXISTS (SELECT 1 then FROM do WHERE end) THEN a; END IF; END",
    ],
)
def test_a_block_is_one_statement(script: str) -> None:
    assert texts(script + ";\nSELECT 1") == [script, "SELECT 1"]


@pytest.mark.parametrize(
    "script",
    [
        "BEGIN SELECT 1; SELECT 2",
        "BEGIN IF a THEN b; END; END; SELECT 1",
        "BEGIN LOOP a; END IF; END; SELECT 1",
        "BEGIN IF a; END IF; END; SELECT 1",
        "BEGIN; SELECT 1",
        "BEGIN DECLARE EXIT HANDLER FOR",
    ],
)
def test_an_unclosed_block_extends_to_the_end_of_the_script(script: str) -> None:
    assert texts("SELECT 0;" + script) == ["SELECT 0", script]


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("SELECT 1 BEGIN; END", ["SELECT 1 BEGIN", "END"]),
        ("a: LOOP; b", ["a: LOOP", "b"]),
        ("IF a THEN b; END IF", ["IF a THEN b", "END IF"]),
        ("BEGIN a; END b; c", ["BEGIN a; END b", "c"]),
    ],
)
def test_only_begin_at_the_start_of_a_statement_opens_a_block(
    script: str, expected: list[str]
) -> None:
    assert texts(script) == expected
