"""Problems and notes of manifests and table definitions, with their places in files."""

from __future__ import annotations

from dataclasses import dataclass, field

MAX_PROBLEMS = 1_000
"""Problems of one deployment after which no further file is read."""
MAX_DOCUMENTS = 2_000
"""Documents in all files of a deployment, empty ones included. Each costs about a millisecond."""
MAX_EXPANDED = 32 * 1024 * 1024
"""Characters of all values of a deployment, with the template in each manifest, and with the values
of variables: a small file can stand for gigabytes."""
_PARTS = "Deploy the files in parts."


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
    """The problems and notes of all files. None is kept twice: a template has many manifests.

    The findings also count what was read, so that the limits hold for all files together. The
    definitions of a deployment have findings, and so counts, of their own.
    """

    documents: int = 0
    """Documents that were read, empty ones included."""
    expanded: int = 0
    """Characters of the values that were read, with templates and variables."""
    _problems: dict[ManifestProblem, None] = field(default_factory=dict)
    _notes: dict[ManifestNote, None] = field(default_factory=dict)

    def add_problem(self, place: Place, code: str, message: str, hint: str | None = None) -> None:
        problem = ManifestProblem(place.path, place.line, place.column, code, message, hint)
        self._problems[problem] = None

    def add_note(self, place: Place, message: str) -> None:
        self._notes[ManifestNote(place.path, place.line, message)] = None

    def is_full(self) -> bool:
        """Return whether a limit is reached, so that nothing further is read."""
        return (
            self.problem_count >= MAX_PROBLEMS
            or self.documents > MAX_DOCUMENTS
            or self.expanded > MAX_EXPANDED
        )

    def report_limit(self, path: str) -> None:
        """Report the limit that was reached while a file was read, if one was."""
        place = Place(path, 1, 1)
        if self.documents > MAX_DOCUMENTS:
            message = f"The files of a deployment have more than {MAX_DOCUMENTS:,} documents."
            self.add_problem(place, "too_many_documents", message, _PARTS)
        elif self.expanded > MAX_EXPANDED:
            message = (
                f"The values of a deployment have more than {MAX_EXPANDED:,} characters, with"
                " those of the template and of variables."
            )
            self.add_problem(place, "file_too_large", message, _PARTS)
        elif self.problem_count >= MAX_PROBLEMS:
            message = f"The files have {MAX_PROBLEMS:,} problems or more. The rest was not read."
            self.add_problem(place, "too_many_problems", message)

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


@dataclass(frozen=True, slots=True)
class SourceText:
    """Path and content of a manifest, a template or a file of table definitions."""

    path: str
    text: str
