"""Wake-ups inside a process: none is lost, and every subscriber of a topic is woken."""

from __future__ import annotations

import threading
import time

import pytest

from headrace.store.notifications import Notifications


def test_a_wake_before_the_wait_is_kept() -> None:
    notifications = Notifications()
    with notifications.subscribe("topic") as subscription:
        notifications.publish(["topic"])
        notifications.publish(["topic"])
        assert subscription.wait(0)
        assert not subscription.wait(0), "several wakes become one"


def test_a_wait_ends_with_the_wake() -> None:
    notifications = Notifications()
    with notifications.subscribe("topic") as subscription:
        thread = threading.Thread(target=notifications.publish, args=[["topic"]])
        started = time.monotonic()
        thread.start()
        assert subscription.wait(60)
        assert time.monotonic() - started < 50
        thread.join()


def test_a_wait_ends_after_its_timeout() -> None:
    with Notifications().subscribe("topic") as subscription:
        assert not subscription.wait(0.01)


def test_only_subscribers_of_the_topic_are_woken() -> None:
    notifications = Notifications()
    with notifications.subscribe("one") as first, notifications.subscribe("two") as second:
        notifications.publish(["two", "three"])
        assert not first.wait(0)
        assert second.wait(0)


def test_every_subscriber_is_woken() -> None:
    notifications = Notifications()
    woken: list[int] = []
    with (
        notifications.subscribe("one", lambda: woken.append(1)),
        notifications.subscribe("one", lambda: woken.append(2)),
        notifications.subscribe("two", lambda: woken.append(3)) as two,
    ):
        notifications.publish(["one"])
        assert sorted(woken) == [1, 2]
        notifications.publish_all()
        assert sorted(woken) == [1, 1, 2, 2, 3]
        assert two.wait(0)


def test_a_failing_callback_does_not_block_other_subscribers(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fail() -> None:
        raise LookupError("no such loop")

    notifications = Notifications()
    with (
        notifications.subscribe("topic", fail) as first,
        notifications.subscribe("topic") as second,
    ):
        notifications.publish(["topic"])
        assert first.wait(0)
        assert second.wait(0)
    assert "no such loop" in caplog.text


def test_a_topic_is_removed_with_its_last_subscription() -> None:
    notifications = Notifications()
    first, second = notifications.subscribe("topic"), notifications.subscribe("topic")
    assert notifications.topics == 1
    first.close()
    first.close()
    assert notifications.topics == 1
    second.close()
    assert notifications.topics == 0
    notifications.publish(["topic"])
    assert notifications.topics == 0


def test_no_wake_is_lost_between_two_threads() -> None:
    """The threads wake each other in turn, so a lost wake-up blocks both for ever."""
    notifications = Notifications()
    rounds = 2000
    with notifications.subscribe("ping") as ping, notifications.subscribe("pong") as pong:

        def answer() -> None:
            for _ in range(rounds):
                assert ping.wait(60)
                notifications.publish(["pong"])

        thread = threading.Thread(target=answer)
        thread.start()
        for _ in range(rounds):
            notifications.publish(["ping"])
            assert pong.wait(60)
        thread.join()
