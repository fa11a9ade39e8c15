"""Who calls in the tests."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import timedelta

from headrace.config.auth import Role
from headrace.control.identity.authenticator import make_token
from headrace.control.policy import Caller
from headrace.files.private_files import name_of_user
from headrace.model.identity import Scope
from headrace.store.database import Database
from headrace.store.identity import tokens, users

LOCAL_OWNER = name_of_user(os.geteuid())
"""Owner of what the user of a node creates who runs the node. The tests run the nodes."""
LOCAL_CALLER = Caller(LOCAL_OWNER, roles=frozenset({Role.ADMIN, Role.USER}))


def create_tokens(database: Database, names: Sequence[str]) -> dict[str, str]:
    """Sign users in, and return a token of each."""
    created = {}
    with database.write("test") as tx:
        for name in names:
            user = users.sign_in(tx, "corp", name, name=name, groups=())
            new = make_token()
            token = tokens.insert_token(
                tx,
                new.secret_hash,
                owner=user.id,
                name="test",
                scope=Scope.ADMIN,
                seconds=timedelta(days=1).total_seconds(),
                created_by=user.id,
            )
            created[name] = new.text(token.id)
    return created
