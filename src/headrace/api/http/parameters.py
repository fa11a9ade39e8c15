"""Parameters of paths that several routes share, with their meaning for the reference."""

from __future__ import annotations

from typing import Annotated

from fastapi import Path

SessionRef = Annotated[str, Path(description="id of the session, or its name while it is live")]
StatementIdPath = Annotated[str, Path(description="id of the statement")]
