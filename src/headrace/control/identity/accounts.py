"""The service for users: list them, disable and enable them."""

from __future__ import annotations

import re

from headrace.control.context import NodeContext
from headrace.control.identity.authenticator import Authenticator
from headrace.control.policy import Action, Caller, Shared, require
from headrace.errors import NotPermitted, UserNotFound
from headrace.model.audit import AuditAction
from headrace.model.identity import User
from headrace.store.identity import users

_ID = re.compile(r"[a-z0-9._-]{1,80}")
_SHOWN = 100


class Accounts:
    """Users of the store, served by one node."""

    def __init__(self, context: NodeContext, authenticator: Authenticator) -> None:
        self._database = context.database
        self._audit = context.audit
        self._authenticator = authenticator

    def page(self, caller: Caller, *, after: str | None, limit: int) -> list[User]:
        """Return at most `limit` users with ids above `after`, by id. Raise NotPermitted."""
        require(caller, Action.READ, Shared.USERS)
        with self._database.read() as tx:
            return users.page(tx, after=after, limit=limit)

    def set_disabled(self, caller: Caller, user_id: str, *, is_disabled: bool) -> User:
        """Disable a user, or enable it again. Return the user.

        All nodes refuse a disabled user, with each of its credentials and tokens. The objects of
        the user stay: its statements, sessions and streams continue.

        Raises:
            NotPermitted: The caller is no administrator, or the user runs the node.
            UserNotFound: There is no user with this id.
        """
        require(caller, Action.CHANGE, Shared.USERS)
        missing = UserNotFound(f"There is no user {user_id[:_SHOWN]!r}.")
        if _ID.fullmatch(user_id) is None:
            raise missing
        if is_disabled and user_id == self._authenticator.local_caller.owner:
            raise NotPermitted(
                f"{user_id} runs the node and cannot be disabled.",
                hint="Its token is the file 'token' of the home. Replace it and restart the nodes.",
            )
        with self._database.write("user.disable") as tx:
            if users.set_disabled(tx, user_id, is_disabled=is_disabled, actor=caller.actor):
                action = AuditAction.USER_DISABLED if is_disabled else AuditAction.USER_ENABLED
                self._audit.record_in(tx, action, caller, target=user_id)
            user = users.get(tx, user_id)
        if user is None:
            raise missing
        self._authenticator.forget_callers()
        return user
