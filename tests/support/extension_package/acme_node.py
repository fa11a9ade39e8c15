"""What only nodes load: the launcher."""

from pathlib import Path

from acme_providers import NicedProfile

from headrace.config.profiles import Profile
from headrace.control.launchers.local import LocalLauncher


class NicedLauncher(LocalLauncher):
    """Starts drivers on the host of the node, with a lower priority."""

    backend = "niced"

    def build_command(self, profile: Profile, bootstrap: Path) -> list[str]:
        niceness = NicedProfile.of(profile).niceness
        return ["nice", "-n", str(niceness), *super().build_command(profile, bootstrap)]
