"""Who calls in the tests."""

from __future__ import annotations

import os

from headrace.config.auth import Role
from headrace.control.policy import Caller
from headrace.files.private_files import name_of_user

LOCAL_OWNER = name_of_user(os.geteuid())
"""Owner of what the user of a node creates who runs the node. The tests run the nodes."""
LOCAL_CALLER = Caller(LOCAL_OWNER, roles=frozenset({Role.ADMIN, Role.USER}))
