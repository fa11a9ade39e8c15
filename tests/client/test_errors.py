from __future__ import annotations

import pytest

from headrace import errors
from headrace.client.errors import error_from_response


def test_a_known_code_selects_the_class() -> None:
    error = error_from_response(400, b'{"code": "empty_statement", "detail": "x", "hint": "y"}')
    assert type(error) is errors.EmptyStatement
    assert (error.message, error.hint, error.position) == ("x", "y", None)


def test_the_position_is_kept() -> None:
    error = error_from_response(
        400, b'{"code": "invalid_text", "detail": "x", "line": 2, "column": 3}'
    )
    assert error.position == errors.Position(2, 3)


def test_the_condition_of_spark_is_kept() -> None:
    body = b'{"code": "invalid_statement", "detail": "x", "condition": "C", "sqlstate": "42601"}'
    error = error_from_response(400, body)
    assert (error.condition, error.sqlstate) == ("C", "42601")
    # A node that sends none.
    error = error_from_response(400, b'{"code": "empty_statement", "detail": "x"}')
    assert error.condition == "PARSE_EMPTY_STATEMENT"


@pytest.mark.parametrize(
    ("status", "base", "exit_code"),
    [
        (418, errors.InvalidRequest, 2),
        (403, errors.Unauthorized, 5),
        (409, errors.Conflict, 6),
        (502, errors.NodeUnreachable, 3),
        (500, errors.HeadraceError, 1),
    ],
)
def test_an_unknown_code_gets_a_class_by_its_status(
    status: int, base: type[errors.HeadraceError], exit_code: int
) -> None:
    error = error_from_response(status, b'{"code": "of_the_future", "detail": "x"}')
    assert isinstance(error, base)
    assert (error.code, error.status, error.exit_code) == ("of_the_future", status, exit_code)


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b"null"])
def test_a_body_that_is_not_a_problem_document_is_still_an_error(body: bytes) -> None:
    assert error_from_response(500, body).message == "The node responded with 500."
