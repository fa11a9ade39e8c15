"""References to secrets, and the texts in which they can stand."""

from __future__ import annotations

import json

import pytest
from tests.support.made_results import inline_result

from headrace.errors import InvalidSecretReference, SecretMisplaced
from headrace.grammar.masking import MASK
from headrace.grammar.secret_references import (
    KnownSecrets,
    find_names,
    list_in_conf,
    list_in_sql,
    replace_in_sql,
    resolve_sql,
    resolve_values,
)
from headrace.model.failure import Failure
from headrace.model.lifecycle import StatementState
from headrace.model.messages import Ended

VALUE = "it's a 'long' \\ value"
VIEW = "CREATE OR REPLACE TEMPORARY VIEW v USING jdbc OPTIONS (url 'x', password {})"


def test_a_reference_can_be_a_part_of_a_value() -> None:
    assert find_names("jdbc:x?user=${secret:user-1}&password=${secret:pw_2}") == ["user-1", "pw_2"]
    conf = {"spark.a": "x${secret:pg}y", "spark.b": "${HOME}"}

    assert resolve_values(conf, lambda names: dict.fromkeys(names, "V")) == {
        "spark.a": "xVy",
        "spark.b": "${HOME}",
    }


@pytest.mark.parametrize(
    "value",
    [
        "${secret:}",
        "${secret:pg",
        "${secret:1pg}",
        "${secret:../key}",
        "${secret:a b}",
        "${secret:pg }",
        f"${{secret:{'a' * 65}}}",
        "${secret:${secret:pg}}",
        "${secret:pg} ${secret:",
    ],
)
def test_a_malformed_or_nested_reference_is_refused(value: str) -> None:
    with pytest.raises(InvalidSecretReference, match="malformed"):
        find_names(value)
    with pytest.raises(InvalidSecretReference, match=r"spark\.x"):
        list_in_conf({"spark.x": value})
    with pytest.raises(InvalidSecretReference) as refused:
        list_in_sql(VIEW.format(f"'{value}'"))
    assert refused.value.position is not None


@pytest.mark.parametrize("key", ["headrace.statement.on_lost_driver", "spark.${secret:pg}"])
def test_no_option_of_headrace_and_no_key_refers_to_a_secret(key: str) -> None:
    with pytest.raises(SecretMisplaced, match="cannot refer to a secret"):
        list_in_conf({key: "${secret:pg}"})


@pytest.mark.parametrize(
    "text",
    [
        VIEW,
        "CREATE STREAM s FROM kafka OPTIONS ('kafka.sasl.jaas.config' = {})",
        "CREATE SINK k TO jdbc OPTIONS (password = {})",
        "SAVE STREAM s TO jdbc OPTIONS ('password' {}, url 'x')",
        "-- ${secret:unused}\nCREATE GLOBAL TEMP VIEW v USING jdbc OPTIONS (`password` {})",
    ],
)
def test_the_value_of_an_option_is_replaced_as_a_string_of_sql(text: str) -> None:
    written = text.replace("{}", "'${secret:pg}'")
    assert list_in_sql(written) == ["pg"]
    resolved = resolve_sql(written, lambda names: dict.fromkeys(names, VALUE))

    # Spark reads no escapes in a raw string.
    assert resolved == text.replace("{}", f'r"{VALUE}"')


@pytest.mark.parametrize(
    "text",
    [
        "SELECT '${secret:pg}'",
        "SET spark.x = ${secret:pg}",
        "CREATE TABLE t USING jdbc OPTIONS (password '${secret:pg}')",
        "CREATE TEMPORARY VIEW v USING jdbc OPTIONS ('${secret:pg}' 'x')",
        "CREATE TEMPORARY VIEW v USING jdbc OPTIONS (a 'x', '${secret:pg}' 'x')",
        "CREATE TEMPORARY VIEW v AS SELECT '${secret:pg}'",
        "CREATE TEMPORARY VIEW v USING jdbc OPTIONS (a (b '${secret:pg}'))",
        "CREATE STREAM `${secret:pg}` FROM rate",
        "CREATE STREAM s AS SELECT '${secret:pg}' FROM STREAM t",
        "INSERT INTO t VALUES ('${secret:pg}')",
        "BEGIN SELECT '${secret:pg}'; END",
    ],
)
def test_any_other_place_in_sql_is_refused_with_its_position(text: str) -> None:
    with pytest.raises(SecretMisplaced) as refused:
        list_in_sql(text)
    assert refused.value.position is not None
    assert refused.value.position.column in {text.index("${secret:") + 1, text.index("${secret:")}


def test_a_text_that_the_lexer_cannot_read_is_left_to_spark() -> None:
    text = "SELECT '${secret:pg}"
    assert list_in_sql(text) == []
    assert replace_in_sql(text, {"pg": "x"}) == text


def test_a_known_value_is_replaced_in_every_form_in_which_a_text_can_contain_it() -> None:
    value = "p'w\\ä/ %123"
    known = KnownSecrets({"pg": value, "longer": value + "4567"})
    forms = [
        value,
        "p''w\\ä/ %123",
        json.dumps(value),
        json.dumps({"x": value}, ensure_ascii=False),
        "p%27w%5C%C3%A4%2F%20%25123",
    ]

    for form in forms:
        masked = known.mask(f"before {form} after")
        assert "${secret:pg}" in masked
        assert "123" not in masked
    assert known.mask(value + "4567") == "${secret:longer}"


@pytest.mark.parametrize("value", ["aab-aab-caab", "it's \\ ä/é"])
def test_the_end_of_a_text_begins_with_no_part_of_a_value(value: str) -> None:
    known = KnownSecrets({"pg": value})
    for form in (value, json.dumps(value)[1:-1], value.replace("'", "''")):
        for start in range(1, len(form)):
            assert known.mask_end(f"{form[start:]} {value} end") == " ${secret:pg} end"
    assert known.mask_end("token: x, text") == f"token: {MASK}, text"
    assert KnownSecrets().mask_end("text") == "text"


def test_an_earlier_value_stays_known_after_a_change() -> None:
    known = KnownSecrets({"pg": "first-value"})
    known.add({"pg": "second-value"})

    assert known.mask("first-value, second-value") == "${secret:pg}, ${secret:pg}"


def test_all_texts_of_a_message_are_masked_and_its_rows_are_not() -> None:
    failure = Failure(
        code="analysis_error", message="no hunter2hunter2", trace="password=x hunter2hunter2"
    )
    message = Ended(
        statement_id=f"st_{1:032}",
        state=StatementState.SUCCESS,
        failure=failure,
        note="hunter2hunter2",
        result=inline_result([("x", "string")], [["hunter2hunter2"]]),
    )
    masked = KnownSecrets({"pg": "hunter2hunter2"}).mask_message(message)

    assert masked.note == "${secret:pg}"
    assert masked.failure is not None
    assert masked.failure.message == "no ${secret:pg}"
    assert masked.failure.trace == f"password={MASK} ${{secret:pg}}"
    assert masked.result == message.result
    assert masked.state is StatementState.SUCCESS


def test_a_message_without_secrets_is_not_copied() -> None:
    message = Ended(statement_id=f"st_{1:032}", state=StatementState.CANCELLED, note="x")

    assert KnownSecrets({"pg": "hunter2hunter2"}).mask_message(message) is message
    assert KnownSecrets().mask_message(message) is message
