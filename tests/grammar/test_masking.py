"""Secrets in SQL texts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.grammar.masking import MASK, is_secret_key, mask_sql, mask_statement


@pytest.mark.parametrize(
    ("text", "expected"),
    {
        "('password' = 'x', 'user' = 'y')": f"('password' = '{MASK}', 'user' = 'y')",
        "OPTIONS (password 'x', n 1)": f"OPTIONS (password '{MASK}', n 1)",
        'TBLPROPERTIES (a.b.secret = "x")': f"TBLPROPERTIES (a.b.secret = '{MASK}')",
        "OPTIONS (`fs.s3a.access-key` = 'x')": f"OPTIONS (`fs.s3a.access-key` = '{MASK}')",
        "OPTIONS (a.b.access-key 'x')": f"OPTIONS (a.b.access-key '{MASK}')",
        "url 'jdbc:x://u:pw@h/?password=p&a=1'": f"url 'jdbc:x://u:{MASK}@h/?password={MASK}&a=1'",
        "'password' = '${PW}' -- 'password' = 'x'": "'password' = '${PW}' -- 'password' = 'x'",
        """SELECT "x", r'y', 'it''s'""": """SELECT "x", r'y', 'it''s'""",
        "SELECT 'password', 'x'": "SELECT 'password', 'x'",
        "SELECT password FROM t WHERE a = 'x'": "SELECT password FROM t WHERE a = 'x'",
    }.items(),
)
def test_strings_after_the_name_of_a_secret_are_masked(text: str, expected: str) -> None:
    assert mask_sql(text) == expected


@given(
    st.text(max_size=40).filter(
        lambda text: not is_secret_key(text) and "=" not in text and "/" not in text
    )
)
def test_a_text_without_secrets_stays_as_it_is(text: str) -> None:
    assert mask_sql(text) == text


def test_a_statement_on_streams_is_masked_in_its_options() -> None:
    text = "CREATE SINK k TO jdbc OPTIONS ('password' = 'x', 'url' = 'jdbc:x')"

    assert mask_statement(text) == (
        f"CREATE SINK `k` TO `jdbc` OPTIONS ('password' = '{MASK}', 'url' = 'jdbc:x')"
    )
