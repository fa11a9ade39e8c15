"""Kinds of reasons."""

from __future__ import annotations

from headrace.model.reasons import MEANINGS, ReasonCode
from headrace.model.statement import WaitCode


def test_every_kind_has_a_meaning_and_every_wait_is_a_kind() -> None:
    assert list(MEANINGS) == list(ReasonCode)
    assert [ReasonCode(code).value for code in WaitCode] == list(WaitCode)
