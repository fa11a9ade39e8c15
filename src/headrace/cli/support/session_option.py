"""The session that the flags of a command select or create."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from headrace.cli.support.references import resolve_session
from headrace.client.http import Client, Json
from headrace.errors import Conflict, InvalidRequest, NotFound, SessionNameExists, SessionNotFound
from headrace.grammar.masking import MASK, mask_value
from headrace.model.lifecycle import SessionState

_CLOSING_SECONDS = 60.0
"""Longest wait for the end of a session: twice the default of `lease.close_grace`."""
_POLL_SECONDS = 0.1


@contextmanager
def explain_missing_session() -> Iterator[None]:
    """Add to the error for an unknown session how a user creates or finds a session."""
    try:
        yield
    except SessionNotFound as error:
        error.hint = error.hint or "add --create, or choose a session of headrace session list"
        raise


class SessionOption:
    """The values of --session, --create, --profile, --conf and --owner."""

    def __init__(
        self,
        name: str | None,
        *,
        create: bool,
        profile: str | None,
        conf: dict[str, str],
        owner: str | None = None,
    ) -> None:
        """Check the flags. Raises InvalidRequest if they contradict each other."""
        if create and name is None:
            raise InvalidRequest("--create needs the name of the session: add --session NAME.")
        if name is not None and not create and (profile is not None or conf):
            raise InvalidRequest(
                "--profile and --conf apply to a new session only. Add --create, or change the "
                "existing session with SET."
            )
        self._name = name
        self._create = create
        self._profile = profile
        self._conf = conf
        self._owner = owner

    @property
    def is_given(self) -> bool:
        """Whether the flags select or create a session."""
        return self._name is not None or self._profile is not None or bool(self._conf)

    def resolve(self, client: Client) -> str | None:
        """Return the id or name of the session; create it if the flags say so.

        Returns None if the first submit is to create a private session. Raises Conflict if the
        session exists with another profile or configuration.
        """
        if self._name is None:
            if not self.is_given:
                return None
            return str(client.create_session(self._request())["id"])
        if not self._create:
            return resolve_session(client, self._name)
        existing = _find_open(client, self._name)
        if existing is not None:
            return self._check_existing(existing)
        try:
            return str(client.create_session(self._request())["id"])
        except SessionNameExists:
            # Another command has created the session in the meantime.
            return self._check_existing(client.session(self._name))

    def _check_existing(self, session: Json) -> str:
        if self._profile is not None and session["profile"] != self._profile:
            raise Conflict(
                f"The session {self._name!r} exists with the profile {session['profile']!r}, "
                f"not {self._profile!r}.",
                hint="leave out --profile, or choose another name",
            )
        # The node redacts secrets, so that another secret cannot be noticed here.
        different_keys = sorted(
            key
            for key, value in self._conf.items()
            if session["conf"].get(key) not in {mask_value(key, value), MASK}
        )
        if different_keys:
            raise Conflict(
                f"The session {self._name!r} exists with another configuration: "
                f"{', '.join(different_keys)}.",
                hint="change the session with SET, or choose another name",
            )
        return str(session["id"])

    def _request(self) -> dict[str, Any]:
        fields = {
            "name": self._name,
            "profile": self._profile,
            "conf": self._conf,
            "owner": self._owner,
        }
        return {key: value for key, value in fields.items() if value}


def _find_open(client: Client, name: str) -> Json | None:
    """Return the session with a name, or None. Wait for the end of one that closes.

    A session that closes keeps its name until its driver has ended.
    """
    deadline = time.monotonic() + _CLOSING_SECONDS
    while True:
        try:
            session = client.session(name)
        except NotFound:
            return None
        if session["state"] != SessionState.CLOSING or time.monotonic() > deadline:
            return session
        time.sleep(_POLL_SECONDS)
