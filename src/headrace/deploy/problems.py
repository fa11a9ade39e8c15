"""Problems and notes of manifests and table definitions, with their places in files."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """A place in a file. Line and column count from 1; columns are code points."""

    path: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.path}:{self.line}:{self.column}"


@dataclass(frozen=True, slots=True)
class ManifestProblem:
    """Why a file cannot be deployed."""

    path: str
    line: int
    column: int
    code: str
    message: str
    hint: str | None = None


@dataclass(frozen=True, slots=True)
class ManifestNote:
    """What the user should know about a file that can be deployed."""

    path: str
    line: int
    message: str


@dataclass(slots=True)
class Findings:
    """The problems and notes of all files. None is kept twice: a template has many manifests."""

    _problems: dict[ManifestProblem, None] = field(default_factory=dict)
    _notes: dict[ManifestNote, None] = field(default_factory=dict)

    def add_problem(self, place: Place, code: str, message: str, hint: str | None = None) -> None:
        problem = ManifestProblem(place.path, place.line, place.column, code, message, hint)
        self._problems[problem] = None

    def add_note(self, place: Place, message: str) -> None:
        self._notes[ManifestNote(place.path, place.line, message)] = None

    @property
    def problem_count(self) -> int:
        return len(self._problems)

    @property
    def problems(self) -> tuple[ManifestProblem, ...]:
        """All problems, in the order of the files as they were read, then by place."""
        paths = {path: n for n, path in enumerate({p.path: None for p in self._problems})}
        return tuple(sorted(self._problems, key=lambda p: (paths[p.path], p.line, p.column)))

    @property
    def notes(self) -> tuple[ManifestNote, ...]:
        """All notes, in the order in which they were found."""
        return tuple(self._notes)
