"""Each described field of a request reaches every place that derives from its description."""

from __future__ import annotations

from typing import Any

import click
import pytest
from pydantic import BaseModel
from sqlalchemy import Table

from headrace.cli.session import session
from headrace.cli.sql import sql
from headrace.frontends.rest.schemas import SessionBody, SessionRequest, StatementRequest
from headrace.model.request_fields import SessionFields, SubmitFields, describe_fields
from headrace.store.tables import sessions, statements


@pytest.mark.parametrize(
    ("description", "table", "request_body", "command"),
    [
        (SubmitFields, statements, StatementRequest, sql),
        (SessionFields, sessions, SessionRequest, session.commands["new"]),
    ],
)
def test_a_field_is_a_column_a_field_of_the_request_and_an_option(
    description: type[Any], table: Table, request_body: type[BaseModel], command: click.Command
) -> None:
    options = {flag: option for option in command.params for flag in option.opts}
    fields = describe_fields(description)
    assert fields
    for name, field in fields.items():
        assert table.c[name].nullable
        assert request_body.model_fields[field.key].description == field.request_text
        option = options[field.flag]
        assert isinstance(option, click.Option)
        assert option.help == field.help


def test_a_response_shows_the_fields_of_a_session() -> None:
    for field in describe_fields(SessionFields).values():
        assert SessionBody.model_fields[field.key].description == field.response_text
