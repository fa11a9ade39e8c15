"""A file of a deployment, as a client has sent it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SourceText:
    """Path and content of a manifest, a template or a file of table definitions."""

    path: str
    text: str
