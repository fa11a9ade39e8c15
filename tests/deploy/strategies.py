"""Hypothesis strategies of manifests and of SQL."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from headrace.deploy.manifest import JobManifest
from headrace.grammar.stream_clauses import OutputMode
from headrace.model.job import OnQueryChange

texts = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=30),
    st.sampled_from(["${a}", "$${a}", "${spark.a}", "$"]),
)
"""Any text that a store can hold."""
_lines = st.lists(
    st.one_of(texts, st.sampled_from(["", "  ", " a", "b ", "# c", "- d"])), max_size=4
)
descriptions = st.one_of(texts, _lines.map("\n".join))
names = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,9}", fullmatch=True).filter(
    lambda name: name.casefold() != "adhoc"
)

_words = st.one_of(
    st.sampled_from(["SELECT", "a", "`b c`", "kafka", ".", "*", "(", ")", ",", "<", "1", "1.5e-3"]),
    st.sampled_from(["'it''s'", '"x -- y"', "'/* no comment */'", "`a``b`", "x_1", "=", "${A}"]),
)
tokens = st.lists(_words, max_size=12).map(lambda words: ["SELECT", *words])
"""The tokens of a query. Spark need not accept it."""
_spaces = st.sampled_from([" ", "\n", "\t ", "\r\n"])
_comments = st.sampled_from(["-- x\n", "/* a /* b */ ; */", "/**/", "--\n"])
gaps = st.tuples(_spaces, st.one_of(st.just(""), _comments), _spaces).map("".join)
"""White space, perhaps with a comment."""


@st.composite
def layouts(draw: st.DrawFn, words: list[str]) -> str:
    """Return a text with these tokens."""
    return "".join(part for word in words for part in (draw(gaps), word)) + draw(gaps)


_codes = st.one_of(descriptions.filter(lambda text: bool(text.strip())), st.just("x = 1\ny = 2\n"))


@st.composite
def manifests(draw: st.DrawFn) -> JobManifest:
    """Return any valid manifest."""
    values: dict[str, Any] = {
        "name": draw(names),
        "description": draw(descriptions),
        "spark_properties": draw(st.dictionaries(texts, texts, max_size=3)),
        "session": draw(st.sampled_from([None, "dedicated", "jobs.a-1"])),
        "metadata_columns": draw(st.booleans()),
        "on_query_change": draw(st.sampled_from(OnQueryChange)),
    }
    kind = draw(st.sampled_from(["sql", "code", "script"]))
    if kind == "script":
        comment = draw(_comments)
        return JobManifest(**values, script=f"{comment}SAVE STREAM a TO noop;\n  SELECT 'x'\n")
    values[kind] = draw(tokens.flatmap(layouts)) if kind == "sql" else draw(_codes)
    return JobManifest(
        **values,
        target_table=draw(st.sampled_from(["t", "`kafka`.`some-topic`", "a.b.c"])),
        trigger=draw(st.sampled_from([None, "5 seconds", "AVAILABLE NOW", "continuous 1 hour"])),
        output_mode=draw(st.one_of(st.none(), st.sampled_from(OutputMode))),
    )
