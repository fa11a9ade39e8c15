"""Payloads of wake-ups: small enough for PostgreSQL, and ignored by their sender."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from headrace.store.listener import NotifyCodec

_LIMIT = 8000  # https://www.postgresql.org/docs/current/sql-notify.html
_TOPICS = st.lists(st.text(st.characters(codec="ascii", exclude_characters="\n"), max_size=60))


@given(_TOPICS)
def test_every_topic_arrives_once_and_in_order(topics: list[str]) -> None:
    sender, reader = NotifyCodec(), NotifyCodec()
    payloads = list(sender.encode(topics * 20))
    assert all(len(payload) < _LIMIT for payload in payloads)
    assert [topic for payload in payloads for topic in reader.decode(payload)] == topics * 20


@given(_TOPICS)
def test_a_node_ignores_its_own_payloads(topics: list[str]) -> None:
    node = NotifyCodec()
    assert all(node.decode(payload) == [] for payload in node.encode(topics))
