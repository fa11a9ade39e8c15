"""Groups of tests. The tests of a group run one after another in one process of `make test`.

They share clusters, nodes with drivers, or a Spark session, which are slow to start.
`--dist loadgroup` cannot be used: pytest-xdist 3.8 appends the group to the ids of tests, and
pytest 9.2 then does not find them. So this scheduler derives the groups from the ids.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from xdist.remote import Producer
    from xdist.scheduler import Scheduling

CLUSTERS = "clusters"
"""The only group that uses the standalone cluster and YARN."""
_ATOMIC = "tests/end_to_end/test_atomic_tables.py::"
_GROUPS = {
    "tests/control/launchers/": CLUSTERS,
    "tests/end_to_end/test_backends.py": CLUSTERS,
    "tests/end_to_end/test_recovery.py": "recovery",
    "tests/end_to_end/test_outages.py": "outages",
    "tests/operations/": "operations",
    "tests/end_to_end/test_emr_serverless.py": "emr",
    "tests/end_to_end/test_shell.py": "shell",
    "tests/end_to_end/test_demo.py": "demo",
    "tests/end_to_end/test_documented_commands.py": "documents",
    f"{_ATOMIC}test_a_table_is_complete_after_drivers_died": "driver_deaths",
    f"{_ATOMIC}test_rows_are_written_once_after_drivers_died": "driver_deaths",
    f"{_ATOMIC}test_the_command_recover": "driver_deaths",
    **{
        f"tests/end_to_end/test_{subject}": "streams"
        for subject in ("job", "materialized_views", "named_streams", "secrets", "seed_", "streams")
    },
    "tests/end_to_end/": "node",
    "tests/faults/test_fast.py": "faults",
    "tests/driver/": "driver",
}
"""Group by the start of a test's id. The first match counts; other tests are grouped by folder."""
_ORDER = [
    CLUSTERS,
    "streams",
    "driver",
    "node",
    "faults",
    "recovery",
    "driver_deaths",
    "tests/faults",
    "outages",
    "tests/faults/chaos_cluster",
    "documents",
    "tests",
    "operations",
    "shell",
    "emr",
]
"""The longest groups first, so that both processes end at the same time."""


def group_of(nodeid: str) -> str:
    """Return the name of a test's group."""
    groups = (group for prefix, group in _GROUPS.items() if nodeid.startswith(prefix))
    return next(groups, nodeid.partition("::")[0].rpartition("/")[0])


def rank_of(nodeid: str) -> int:
    """Return the place of a test's group in the order of groups."""
    group = group_of(nodeid)
    return _ORDER.index(group) if group in _ORDER else len(_ORDER)


def scheduler_of(config: pytest.Config, log: Producer) -> Scheduling:
    """Return the scheduler that gives each group to one worker."""
    from xdist.scheduler import LoadScopeScheduling

    class GroupScheduling(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return group_of(nodeid)

    return GroupScheduling(config, log)
