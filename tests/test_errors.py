"""Every error class has a message, a unique code, an HTTP status and an exit code."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from headrace import errors
from headrace.errors import HeadraceError

EXIT_CODES = {value for name, value in vars(errors).items() if name.startswith("EXIT_")}


def classes(root: type[HeadraceError] = HeadraceError) -> Iterator[type[HeadraceError]]:
    """Yield the root and its subclasses that the package defines."""
    if root.__module__.startswith(f"{errors.__name__}."):
        yield root
    for subclass in root.__subclasses__():
        yield from classes(subclass)


ALL = sorted(set(classes()), key=lambda error: error.__name__)


@pytest.mark.parametrize("error", ALL, ids=lambda error: error.__name__)
def test_every_class_has_a_message_a_code_a_status_and_an_exit_code(
    error: type[HeadraceError],
) -> None:
    raised = error()

    assert raised.message.endswith(".")
    assert str(raised) == raised.message
    assert error.code.replace("_", "").isalnum()
    assert error.code == error.code.lower()
    assert 400 <= error.status < 600
    assert error.exit_code in EXIT_CODES


def test_no_two_classes_share_a_code() -> None:
    assert len({error.code for error in ALL}) == len(ALL)


def test_a_message_a_position_and_a_hint_are_kept() -> None:
    position = errors.Position(line=2, column=7)
    raised = errors.InvalidRequest("No.", position=position, hint="Do this.")

    assert (raised.message, raised.position, raised.hint) == ("No.", position, "Do this.")
