"""The session that a command's statements run in, made when it must be."""

from __future__ import annotations

from typing import Any

from headrace.client.http import Client
from headrace.errors import Conflict, InvalidRequest, NotFound, SessionNameExists


class SessionOption:
    """What the flags say of a session. Raises InvalidRequest when they do not fit together."""

    def __init__(
        self, name: str | None, *, create: bool, profile: str | None, conf: dict[str, str]
    ) -> None:
        if create and name is None:
            raise InvalidRequest("--create makes the session that --session names.")
        if name is not None and not create and (profile is not None or conf):
            raise InvalidRequest(
                "--profile and --conf are for a new session; "
                "change one that is there with SET, or add --create."
            )
        self._name = name
        self._create = create
        self._profile = profile
        self._conf = conf

    def resolve(self, client: Client) -> str | None:
        """Its id or name; None when the first submit is to make a private one."""
        if self._name is None:
            made = self._profile is not None or self._conf
            return str(client.create_session(self._body())["id"]) if made else None
        if not self._create:
            return self._name
        try:
            return self._checked(client.session(self._name))
        except NotFound:
            pass
        try:
            return str(client.create_session(self._body())["id"])
        except SessionNameExists:  # another command was faster
            return self._checked(client.session(self._name))

    def _checked(self, session: dict[str, Any]) -> str:
        if self._profile is not None and session["profile"] != self._profile:
            raise Conflict(
                f"The session {self._name!r} has the profile {session['profile']!r}, "
                f"not {self._profile!r}."
            )
        different = sorted(
            key for key, value in self._conf.items() if session["conf"].get(key) != value
        )
        if different:
            raise Conflict(
                f"The session {self._name!r} was made with another configuration: "
                f"{', '.join(different)}.",
                hint="change it with SET, or take another name",
            )
        return str(session["id"])

    def _body(self) -> dict[str, Any]:
        body = {"name": self._name, "profile": self._profile, "conf": self._conf}
        return {key: value for key, value in body.items() if value}
