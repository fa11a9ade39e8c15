"""When two identities mean one place: for process ids, for loopback addresses, for files."""

from __future__ import annotations

from dataclasses import replace

import pytest

from headrace.control.host.process_identity import HostIdentity

_HOST = HostIdentity(
    name="a", machine="m", boot="b", pid_namespace="pid:[1]", network_namespace="net:[1]"
)


@pytest.mark.parametrize(
    ("change", "processes", "loopback", "place"),
    [
        ({}, True, True, True),
        ({"name": "another name"}, True, True, True),
        # Containers that share the process ids, for example the containers of a pod.
        ({"network_namespace": "net:[2]"}, True, False, False),
        # An earlier version does not record the network.
        ({"network_namespace": None}, True, True, True),
        ({"pid_namespace": "pid:[2]"}, False, False, False),
        ({"boot": "later"}, False, False, True),
        ({"machine": "another"}, False, False, False),
    ],
)
def test_what_two_hosts_share(
    change: dict[str, str | None], processes: bool, loopback: bool, place: bool
) -> None:
    other = replace(_HOST, **change)  # type: ignore[arg-type]
    for first, second in ((_HOST, other), (other, _HOST)):
        assert first.shares_processes_with(second) is processes
        assert first.shares_loopback_with(second) is loopback
        assert first.is_same_place_as(second) is place


def test_a_record_of_a_later_version_can_be_read() -> None:
    assert HostIdentity.from_record({**_HOST.to_record(), "rack": "7"}) == _HOST


def test_the_record_of_a_process_can_be_read_by_an_earlier_version() -> None:
    assert set(_HOST.to_process_record()) == {"name", "machine", "boot", "pid_namespace"}
