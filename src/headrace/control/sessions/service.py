"""The service for sessions: open, find, list, close."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import asdict

from headrace.config.settings import Settings
from headrace.control.conf import check_session_conf
from headrace.control.context import NodeContext
from headrace.control.limits import check_sessions, describe_owner
from headrace.control.policy import (
    Action,
    Caller,
    listed_owners,
    require_creator,
    resolve_owner,
)
from headrace.control.sessions.ending import close_session
from headrace.control.sessions.opening import (
    create_session,
    find_own_session,
    get_session,
    resolve_session,
)
from headrace.errors import InvalidRequest
from headrace.model.ids import looks_like_id, new_id
from headrace.model.lifecycle import SessionState
from headrace.model.request_fields import SessionFields
from headrace.model.session import (
    NewSession,
    Session,
    SessionKind,
    SessionSpec,
    is_session_name,
)
from headrace.store.sessions import sessions


class Sessions:
    """Sessions of all callers, served by one node."""

    def __init__(self, context: NodeContext) -> None:
        self._database = context.database
        self._settings = context.settings

    def open(
        self,
        caller: Caller,
        spec: SessionSpec,
        *,
        owner: str | None = None,
        like: str | None = None,
        name: str | None = None,
        kind: SessionKind = SessionKind.INTERACTIVE,
        parallelism: int | None = None,
        fields: SessionFields | None = None,
    ) -> Session:
        """Store a session and return it. A node then starts its driver, unless a warm one fits.

        Args:
            owner: Owner of the session, as in `resolve_owner`; default: the caller.
            like: Id or name of a session of the caller that gives its spec in place of `spec`.
            parallelism: Largest number of queries that run at once; default: that of the settings.
                A session that names more than 1 gets a driver that starts for it.
            fields: Further fields of the request; default: those of the settings.

        Raises:
            NotPermitted: If the caller may not open sessions, or not for this owner.
            InvalidRequest: If the name has the form of an id, or a character that is not allowed;
                or if both `like` and `spec` are given.
            SessionNotFound: If `like` names no session of the caller.
            InvalidSetting: If the profile does not exist, or for a key in `conf`.
            SettingDenied: For a key or artifact that is reserved for the operator.
            SessionNameExists: If a live session of the caller has the name.
            TooManySessions: If a limit on live sessions is reached.
        """
        require_creator(caller, "sessions")
        if like is not None:
            spec = self._copy_spec(caller, spec, like)
        new = check_new_session(
            self._settings,
            caller,
            spec,
            owner=owner,
            name=name,
            kind=kind,
            parallelism=parallelism,
            fields=fields,
        )
        with self._database.write("session.open") as tx:
            limited = describe_owner(tx, self._settings, new.owner, caller)
            check_sessions(tx, self._settings, limited)
            return get_session(tx, create_session(tx, self._settings, new))

    def _copy_spec(self, caller: Caller, spec: SessionSpec, like: str) -> SessionSpec:
        if spec != SessionSpec():
            raise InvalidRequest(
                "The request names another session in `like`, and configures the new one too.",
                hint=f"Leave out `like`, or {', '.join(SessionSpec.model_fields)}.",
            )
        with self._database.read() as tx:
            # The configuration may hold secrets, which readers of a session do not see.
            return get_session(tx, find_own_session(tx, caller, like).id).spec

    def get(self, caller: Caller, name_or_id: str) -> Session:
        """Return a session of the caller. Raise SessionNotFound if there is none."""
        with self._database.read() as tx:
            return get_session(tx, resolve_session(tx, caller, name_or_id))

    def page(
        self,
        caller: Caller,
        *,
        states: Collection[SessionState] | None,
        before: str | None,
        id_prefix: str | None,
        limit: int,
        all_owners: bool = False,
    ) -> list[Session]:
        """Return at most `limit` sessions of the owners that `caller` lists, newest first.

        Their ids are below `before`.
        """
        with self._database.read() as tx:
            return sessions.page(
                tx,
                owners=listed_owners(caller, all_owners=all_owners),
                states=states,
                before=before,
                id_prefix=id_prefix,
                limit=limit,
            )

    def close(self, caller: Caller, name_or_id: str) -> Session:
        """Request the end of a session and return it.

        Do nothing if the session is closing or has ended: HTTP clients repeat a DELETE whose
        answer was lost. Raise SessionNotFound if the caller has no such session.
        """
        with self._database.write("session.close") as tx:
            session_id = resolve_session(tx, caller, name_or_id, Action.CHANGE)
            close_session(tx, session_id, actor=caller.actor)
            return get_session(tx, session_id)


def check_new_session(
    settings: Settings,
    caller: Caller,
    spec: SessionSpec,
    *,
    owner: str | None = None,
    name: str | None = None,
    kind: SessionKind = SessionKind.INTERACTIVE,
    parallelism: int | None = None,
    fields: SessionFields | None = None,
) -> NewSession:
    """Return a session that a caller may open, to be stored. See `Sessions.open`."""
    settings.profile(spec.profile)
    check_session_conf(spec, settings.conf_policy)
    if name is not None:
        _check_name(name)
    return NewSession(
        id=new_id("se"),
        owner=resolve_owner(caller, owner),
        actor=caller.actor,
        kind=kind,
        name=name,
        spec=spec,
        **asdict(fields or SessionFields()),
        parallelism=parallelism,
    )


def _check_name(name: str) -> None:
    if looks_like_id(name):
        raise InvalidRequest(f"{name!r} cannot be the name of a session: it has the form of an id.")
    if not is_session_name(name):
        raise InvalidRequest(
            f"{name!r} cannot be the name of a session. Use a letter, then up to 99 letters, "
            "digits, '_', '.' or '-'."
        )
