"""The sentence with which an error is shown, where Spark's message holds whole stack traces.

The JVM knows an error of Python code as text: a traceback, whose last error is the cause. If Python
had called the JVM, that text holds a stack trace of Java in turn.
"""

from __future__ import annotations

_PYTHON = "Traceback (most recent call last):"
_JAVA_FRAMES = ("\tat ", "\t... ")
_CAUSED_BY = "Caused by: "
_JAVA_ERROR = "py4j.protocol.Py4JJavaError: "
_CAPTURED = "pyspark.errors.exceptions.captured."
_END = "Driver stacktrace:"
_WRAPPERS = (
    "org.apache.spark.",
    "py4j.",
    "java.lang.reflect.",
    "java.util.concurrent.ExecutionException",
)
"""Beginnings of the names of exceptions that only pass on their cause."""


def wraps_its_cause(error: str) -> bool:
    """Return whether an exception of Java, given its class or its text, only passes on its cause.

    An exception of a library names its own cause in its message: it is shown itself.
    """
    return error.startswith(_WRAPPERS)


def find_headline(message: str) -> str:
    """Return the last cause in a message with a traceback of Python; else the message itself."""
    _before, mark, trace = message.rpartition(_PYTHON)
    if not mark:
        return message
    lines = trace.split("\n")
    begin = next((n for n, line in enumerate(lines) if line[:1].strip()), None)
    if begin is None:
        return message
    error = lines[begin:]
    if error[0].startswith(_JAVA_ERROR):
        return _find_java_cause(error) or error[0]
    return _cut_java_frames(error).removeprefix(_CAPTURED)


def _find_java_cause(lines: list[str]) -> str | None:
    """Return the first cause in the text of a Py4JJavaError that is no wrapper, else the last."""
    causes = [
        _cut_java_frames(lines[n:]).removeprefix(": ").removeprefix(_CAUSED_BY)
        for n, line in enumerate(lines)
        if line.startswith((": ", _CAUSED_BY))
    ]
    return next((cause for cause in causes if not wraps_its_cause(cause)), None) or (
        causes[-1] if causes else None
    )


def _cut_java_frames(lines: list[str]) -> str:
    """Return the first lines, up to the frames of a Java stack trace."""
    end = next(
        (n for n, line in enumerate(lines) if line.startswith(_JAVA_FRAMES) or line == _END),
        len(lines),
    )
    return "\n".join(lines[:end]).strip()
