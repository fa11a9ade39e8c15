"""What a caller asks for when it plans a deployment."""

from __future__ import annotations

from dataclasses import dataclass, field

from headrace.deploy.problems import SourceText

__all__ = ["PlanRequest", "SourceText"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRequest:
    """The files of a deployment, and where it deploys to."""

    manifests: list[SourceText]
    template: SourceText | None = None
    definitions: list[SourceText] = field(default_factory=list)
    variables: dict[str, str] = field(default_factory=dict)
    """Values of `${NAME}`."""
    profile: str = "default"
    state_location: str | None = None
    py_files: list[str] = field(default_factory=list)
    prune: bool = False
