"""The step of a build that makes the scripts of the web pages, which are not in the repository."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class WebScripts(BuildHookInterface[Any]):
    """Builds the scripts, unless they are built from the same sources."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002
        """Build them for a wheel or an sdist. An editable installation has its own step."""
        if version != "editable":
            subprocess.run([Path(self.root) / "scripts" / "setup-web", "--no-install"], check=True)
