"""How the drivers of a session read locations. `files/places.py` has the rules."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import quote

from headrace.config.settings import Settings
from headrace.errors import InvalidSetting
from headrace.files.places import DEFAULT_FS, identify, local_path, to_hadoop_form


class SessionPlaces:
    """The places that locations name in the sessions of one profile and configuration."""

    def __init__(self, settings: Settings, profile: str, conf: Mapping[str, str]) -> None:
        """Use a profile, and the configuration of the session, which overrides the profile's."""
        runs_here = False
        try:
            chosen = settings.profile(profile)
        except InvalidSetting:
            # Only other nodes have the profile.
            self._default_fs = conf.get(DEFAULT_FS)
        else:
            self._default_fs = conf.get(DEFAULT_FS, chosen.conf.get(DEFAULT_FS))
            runs_here = not chosen.is_remote
        reads_here = self._default_fs is None or local_path(self._default_fs) is not None
        self._base = str(settings.driver_folder) if runs_here and reads_here else None

    def to_hadoop_form(self, location: str) -> str:
        """Return a location as Spark gets it. Raises InvalidLocation.

        A relative path becomes absolute if the drivers run on this host: it is relative to their
        working directory. Other drivers resolve it themselves.
        """
        return to_hadoop_form(location, base=self._base)

    def identify(self, location: str) -> str:
        """Return the identity of the place of a location."""
        return identify(location, base=self._base, default_fs=self._default_fs)

    def is_same(self, first: str | None, second: str | None) -> bool:
        """Return whether two locations name one place; None names no place."""
        if first is None or second is None:
            return first is second
        return self.identify(first) == self.identify(second)


def to_file_name(name: str) -> str:
    """Return one segment of a path for a name, which can contain any character.

    Different names have different segments, and no segment leaves the directory.
    """
    segment = quote(name, safe="")
    return segment.replace(".", "%2E") if segment in {".", ".."} else segment
