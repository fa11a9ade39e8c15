"""Drafts of jobs: manifests with everything that the files alone decide."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from headrace.control.conf import check_conf
from headrace.control.jobs.compile import choose_session, compile_queries
from headrace.control.jobs.requests import PlanRequest
from headrace.deploy.definitions import Definitions, read_definitions
from headrace.deploy.fingerprint import configuration_fingerprint, query_fingerprint
from headrace.deploy.manifest import LocatedManifest, ManifestProblem
from headrace.deploy.read import read_manifests
from headrace.errors import HeadraceError, InvalidManifests
from headrace.model.deployment import ManifestError, VersionSpec
from headrace.model.job import OnQueryChange
from headrace.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class JobDraft:
    """A manifest, compiled."""

    name: str
    path: str
    line: int
    spec: VersionSpec
    on_query_change: OnQueryChange
    notes: list[str] = field(default_factory=list)

    def error(self, code: str, message: str, hint: str = "") -> ManifestError:
        """Return an error of the manifest as a whole."""
        return ManifestError(
            path=self.path, line=self.line, code=code, message=message, hint=hint, job=self.name
        )
