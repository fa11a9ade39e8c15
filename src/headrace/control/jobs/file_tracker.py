"""Which of the files of a location are new and complete, as successive lists show them.

A file is known by its path, its size and its revision. Times of modification are compared for
equality alone: an old file that is moved into the directory is new.
"""

from __future__ import annotations

import fnmatch
import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from headrace.files.listing import ListedFile, is_hidden
from headrace.model.run import FileState, UsedFile

_TEMPORARY = ".tmp"
_FORGET_SECONDS = 24 * 3600.0
"""Time after which a file that has vanished is forgotten. A directory whose file system is not
mounted looks empty, and its files must not count as new when they are back."""


@dataclass(frozen=True, slots=True)
class FileRules:
    """Which files count, and from when on."""

    pattern: str | None = None
    """Pattern of their names; None: all files."""
    marker: str | None = None
    """Name of the file that completes a directory; None: files must settle."""
    settle_seconds: float = 5.0


@dataclass(frozen=True, slots=True)
class NewFile:
    """A file that is complete, and that no run has used."""

    path: str
    key: str
    state: FileState


@dataclass(slots=True)
class _SeenFile:
    file: NewFile
    found_at: float
    """When it was first listed, in any state."""
    settled_from: float
    """When it was first listed in this state."""


@dataclass(slots=True)
class FileTracker:
    """What the lists of one location have shown. The times are those of a monotonic clock."""

    rules: FileRules
    place: str
    """The location. A file of another location is another file, whatever its path below it."""
    used: dict[str, UsedFile]
    """The files that runs have used, by key. The caller adds files that it has given to a run."""
    most_used: int
    """Number of used files above which those that have vanished are forgotten at once."""
    _listed: list[ListedFile] | None = None
    _seen: dict[str, _SeenFile] = field(default_factory=dict)
    """Files that the last list has shown, and that no run has used."""
    _missing_since: dict[str, float] = field(default_factory=dict)
    _markers: set[str] = field(default_factory=set)
    """Directories that the last list has shown to be complete."""

    def update(
        self, listed: list[ListedFile], *, began_at: float, ended_at: float
    ) -> list[NewFile]:
        """Take a list into account. Return the new files that are complete, oldest first.

        Args:
            began_at: When the list began. A file has settled if it had its state long before.
            ended_at: When the list ended.
        """
        if listed == self._listed and not self._seen:
            return []
        self._listed = listed
        complete = self._markers
        self._markers = {
            file.path.rpartition("/")[0]
            for file in listed
            if file.path.rpartition("/")[2] == self.rules.marker
        }
        # An entry may be older than the marker of the same list.
        complete = complete & self._markers
        present = {file.key: file for file in self._select(listed)}
        self._note_missing(present, ended_at)
        seen = dict[str, _SeenFile]()
        for key, file in present.items():
            used = self.used.get(key)
            if used is None or not _is_same(used.state, file.state):
                seen[key] = self._follow(file, ended_at)
        self._seen = seen
        done = [
            each for each in seen.values() if self._is_complete(each, complete, began_at=began_at)
        ]
        done.sort(key=lambda each: (each.found_at, each.file.path))
        return [each.file for each in done]

    def find_renamed(self, files: Iterable[NewFile]) -> dict[str, str]:
        """Return the keys of used files that have these new names, by their new keys."""
        missing = {
            (used.state.file_id, used.state.size, used.state.revision): key
            for key in self._missing_since
            if (used := self.used.get(key)) is not None and used.state.file_id is not None
        }
        identities = {
            file.key: (file.state.file_id, file.state.size, file.state.revision) for file in files
        }
        return {
            key: missing[identity] for key, identity in identities.items() if identity in missing
        }

    def list_forgotten(self, now: float) -> list[str]:
        """Return the keys of used files that have been missing for long."""
        if len(self.used) > self.most_used:
            return list(self._missing_since)
        return [key for key, since in self._missing_since.items() if now - since > _FORGET_SECONDS]

    def forget(self, keys: Iterable[str]) -> None:
        """Remove used files that have vanished or have new names."""
        for key in keys:
            self.used.pop(key, None)
            self._missing_since.pop(key, None)

    def _select(self, listed: Iterable[ListedFile]) -> Iterator[NewFile]:
        """Yield the files that have rows, by their names and sizes."""
        for file in listed:
            name = file.path.rpartition("/")[2]
            is_left_out = is_hidden(name) or name.endswith(_TEMPORARY) or name == self.rules.marker
            pattern = self.rules.pattern
            if is_left_out or (pattern is not None and not fnmatch.fnmatchcase(name, pattern)):
                continue
            # A writer may have opened an empty file, and will write to it.
            if file.size > 0:
                state = FileState(file.size, file.revision, file.file_id)
                yield NewFile(file.path, self._make_key(file.path), state)

    def _make_key(self, path: str) -> str:
        """Return a digest of a path, which may be long."""
        return hashlib.blake2b(f"{self.place}/{path}".encode(), digest_size=16).hexdigest()

    def _note_missing(self, present: Mapping[str, NewFile], now: float) -> None:
        since = self._missing_since
        self._missing_since = {key: since.get(key, now) for key in self.used if key not in present}

    def _follow(self, file: NewFile, now: float) -> _SeenFile:
        before = self._seen.get(file.key)
        if before is None:
            return _SeenFile(file, now, now)
        if _is_same(before.file.state, file.state):
            return before
        return _SeenFile(file, before.found_at, now)

    def _is_complete(self, each: _SeenFile, complete: set[str], *, began_at: float) -> bool:
        if self.rules.marker is None:
            return began_at - each.settled_from >= self.rules.settle_seconds
        *directories, _name = each.file.path.split("/")
        parents = ["/".join(directories[:depth]) for depth in range(len(directories) + 1)]
        return not complete.isdisjoint(parents)


def _is_same(first: FileState, second: FileState) -> bool:
    return (first.size, first.revision) == (second.size, second.revision)
