"""Secrets in SQL texts."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.grammar.masking import (
    MASK,
    is_secret_key,
    mask_sql,
    mask_statement,
    mask_text,
    mask_values,
    set_further_keys,
)


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
        "map('a', 'b', 'password', 'x')": f"map('a', 'b', 'password', '{MASK}')",
        "f(password => 'x')": f"f(password => '{MASK}')",
        "SET a.secret.key=x y;": f"SET a.secret.key={MASK};",
        "set a.key = x": "set a.key = x",
        "SELECT * FROM books WHERE author = 'x'": "SELECT * FROM books WHERE author = 'x'",
        "('password' = '${secret:pg}')": "('password' = '${secret:pg}')",
        "('password' = 'x${secret:pg}')": f"('password' = '{MASK}')",
        "url 'jdbc:x?password=${secret:pg}'": "url 'jdbc:x?password=${secret:pg}'",
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


SECRET = "s3cr3t/+="


@pytest.mark.parametrize(
    "line",
    [
        "SET spark.hadoop.fs.s3a.secret.key={}",
        "SET `spark.hadoop.fs.s3a.secret.key` = '{}'",
        "-Djavax.net.ssl.keyStorePassword={} -Xmx1g",
        "OPTIONS (password '{}', user 'u')",
        'OPTIONS ("password" "{}")',
        "OPTIONS ('kafka.ssl.key.password' => '{}')",
        "WITH (access-key = '{}')",
        '{{"password": "{}", "user": "u"}}',
        '{{"msg": "OPTIONS (\\"password\\" = \\"{}\\")"}}',
        'required username=\\"u\\" password=\\"{}\\";',
        "java.sql.SQLException: jdbc:postgresql://u:{}@h/db",
        "jdbc:postgresql://h/db?user=u&password={}&ssl=true",
        "Authorization token: {}",
        "aws_secret_access_key={}",
        "password:{}\nnext line",
    ],
)
def test_a_secret_beside_its_name_is_masked_in_a_line_of_a_log(line: str) -> None:
    secret = "s3cr3t" if "//u:" in line or "?user" in line else SECRET
    text = line.format(secret)
    masked = mask_text(text)
    assert "s3cr3t" not in masked
    assert MASK in masked
    assert mask_text(masked) == masked
    for part in ("user", "next line", "-Xmx1g", "ssl=true"):
        assert (part in masked) == (part in text)


@pytest.mark.parametrize(
    "line",
    [
        "Syntax error at or near 'password'. (line 1, pos 7)",
        "SELECT password, token FROM t WHERE secret IS NULL",
        "26/11/27 INFO BlockManager: Using org.apache.spark.storage.RandomBlockReplicationPolicy",
        "tokens processed 12, secretary of state",
    ],
)
def test_other_lines_of_a_log_stay_as_they_are(line: str) -> None:
    assert mask_text(line) == line


def test_a_huge_line_of_a_log_is_masked_in_linear_time() -> None:
    for line in ("a" * 5_000_000, "password" * 600_000, "token " * 800_000, "//x:" * 1_000_000):
        assert len(mask_text(line)) >= len(line) // 2


def test_settings_are_masked_by_their_keys_and_values() -> None:
    settings = {
        "spark.hadoop.fs.s3a.secret.key": "x",
        "spark.hadoop.fs.s3a.access.key": "x",
        "spark.hadoop.fs.azure.account.key.a.dfs.core.windows.net": "x",
        "spark.sql.catalog.pg.url": "jdbc:postgresql://u:x@h/db?password=x",
        "spark.sql.catalog.pg.passwd": "x",
        "spark.executor.memory": "2g",
    }
    masked = mask_values(settings)
    assert masked["spark.executor.memory"] == "2g"
    assert masked["spark.sql.catalog.pg.url"] == f"jdbc:postgresql://u:{MASK}@h/db?password={MASK}"
    assert set(list(masked.values())[:3]) == {masked["spark.sql.catalog.pg.passwd"]} == {MASK}


@pytest.fixture
def further_keys() -> Iterator[None]:
    """Let keys that contain `pin` count as names of secrets."""
    set_further_keys("(?i)\\bpin")
    yield
    set_further_keys(None)


@pytest.mark.usefixtures("further_keys")
def test_the_keys_of_the_setting_are_names_of_secrets_in_all_texts() -> None:
    assert mask_values({"card.PIN": "x", "spinning": "x"}) == {"card.PIN": MASK, "spinning": "x"}
    assert mask_sql("OPTIONS (card.pin 'x')") == f"OPTIONS (card.pin '{MASK}')"
    assert mask_text("card.pin=x, spinning=x") == f"card.pin={MASK}, spinning=x"


def test_a_reference_is_shown_as_it_is() -> None:
    assert mask_values({"a.password": "${secret:pg}"}) == {"a.password": "${secret:pg}"}
    text = "${secret:pg} may not be used, password '${secret:pg}'"
    assert mask_text(text) == text
