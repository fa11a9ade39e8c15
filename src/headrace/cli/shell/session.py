"""The session of the shell, which all statements of the prompt share."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from headrace.cli.output.formats import OutputFormat
from headrace.cli.output.text import to_printable
from headrace.cli.support.follow import fetch_rows
from headrace.cli.support.readable import describe_session
from headrace.cli.support.session_option import SessionOption, explain_missing_session
from headrace.client.http import Client, Json
from headrace.errors import (
    HeadraceError,
    InvalidRequest,
    SessionEnded,
    SessionNotFound,
)
from headrace.model.lifecycle import SESSION, SessionState

DEFAULT_CATALOG = "spark_catalog"
NAMESPACE_QUERY = "SELECT current_catalog(), current_database()"
_CLOSE_SECONDS = 2.0
"""Longest outage that the end of the shell waits out. Not 0: the node closes idle connections."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShellOptions:
    """The options with which a shell starts."""

    session: str | None
    create: bool
    profile: str | None
    conf: dict[str, str]
    output_format: OutputFormat | None
    fields: dict[str, Any] = field(default_factory=dict)
    """Fields of every submit."""

    def session_option(self) -> SessionOption:
        """Return the checked choice of the session."""
        return SessionOption(self.session, create=self.create, profile=self.profile, conf=self.conf)


class Namespace(NamedTuple):
    """The current catalog and database of a session."""

    catalog: str
    database: str

    def __str__(self) -> str:
        parts = self if self.catalog != DEFAULT_CATALOG else self[1:]
        return ".".join(map(to_printable, parts))


class ShellSession:
    """The session that the shell uses now, and the private session that it owns.

    The private session is created when it is first needed, and closed with the shell.
    """

    def __init__(self, profile: str | None = None, conf: dict[str, str] | None = None) -> None:
        self._request = {"profile": profile, "conf": conf or {}}
        self._private_id: str | None = None
        self.id = ""
        self.name: str | None = None
        self.namespace: Namespace | None = None
        self.idle_timeout: str | None = None

    @property
    def is_private(self) -> bool:
        return self.id == self._private_id

    @property
    def prompt(self) -> str:
        """The prompt: session and current database, as far as it is known."""
        label = "private" if self.is_private else to_printable(self.name or self.id[:11])
        place = f" {self.namespace}" if self.namespace is not None else ""
        return f"{label}{place}> "

    def use_private(self, client: Client) -> None:
        """Use the private session of the shell; create one if there is none, or it has ended."""
        session = None if self._private_id is None else _find_session(client, self._private_id)
        if session is None or has_session_ended(session):
            request = {key: value for key, value in self._request.items() if value}
            session = client.create_session(request)
            self._private_id = str(session["id"])
        self._use(session)

    def switch(self, client: Client, option: SessionOption) -> None:
        """Use the session that the option selects or creates.

        Raises:
            SessionNotFound: There is no such session.
            SessionEnded: The session has ended.
        """
        chosen = option.resolve(client)
        if chosen is None:
            raise InvalidRequest("The name of the session is missing.")
        with explain_missing_session():
            session = client.session(chosen)
        self._use(session)

    def _use(self, session: Json) -> None:
        if has_session_ended(session):
            raise SessionEnded(
                f"Session {to_printable(describe_session(session))} is {session['state']}.",
                hint="choose another one, or create one with --create",
            )
        self.id, self.name, self.namespace = session["id"], session["name"], None
        self.idle_timeout = session.get("idle_timeout")

    def replace_ended(self, client: Client) -> bool:
        """Return whether the session has ended; replace the private session if it has."""
        if not has_session_ended(client.session(self.id)):
            return False
        if self.is_private:
            self.use_private(client)
        return True

    def refresh_namespace(self, client: Client) -> None:
        """Ask the session for its current catalog and database. Keep the old ones on an error."""
        session = self.id
        with contextlib.suppress(HeadraceError):
            rows = fetch_rows(client, session, NAMESPACE_QUERY)
            if rows and session == self.id:
                self.namespace = Namespace(*map(str, rows[0]))

    def close(self, client: Client) -> None:
        """Close the private session. Named sessions stay."""
        if self._private_id is not None:
            with client.retrying(_CLOSE_SECONDS):
                client.close_session(self._private_id)


def _find_session(client: Client, id_: str) -> Json | None:
    try:
        return client.session(id_)
    except SessionNotFound:
        return None


def has_session_ended(session: Json) -> bool:
    """Return whether a session accepts no more statements."""
    # A state that only newer nodes know is no end.
    state = session["state"]
    return state in SESSION.terminal or state == SessionState.CLOSING
