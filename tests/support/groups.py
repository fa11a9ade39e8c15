"""Groups of tests. The tests of a group run one after another in one process of `make test`.

They share clusters, nodes with drivers, or a Spark session, which are slow to start.
`--dist loadgroup` cannot be used: pytest-xdist 3.8 appends the group to the ids of tests, and
pytest 9.2 then does not find them. So this scheduler derives the groups from the ids.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from xdist.remote import Producer
    from xdist.scheduler import Scheduling

CLUSTERS = "clusters"
"""The only group that uses the standalone cluster and YARN."""
_END_TO_END = "tests/end_to_end/"
_ATOMIC = f"{_END_TO_END}test_atomic_tables.py::"
_OF_THE_SHARED_NODE = (
    *("atomic_tables", "concurrent_writes", "early_rows", "ends", "held_results", "hive_writes"),
    *("interactive_shell", "lakes", "load", "main_job", "parallel", "pool_sessions", "scripts"),
    *("process_hygiene", "time_zones", "tpch"),
)
_GROUPS = {
    "tests/control/launchers/": CLUSTERS,
    f"{_END_TO_END}test_backends.py": CLUSTERS,
    f"{_ATOMIC}test_a_table_is_complete_after_drivers_died": "driver_deaths",
    f"{_ATOMIC}test_rows_are_written_once_after_drivers_died": "driver_deaths",
    f"{_ATOMIC}test_the_command_recover": "driver_deaths",
    **{f"{_END_TO_END}test_{subject}.py": "node" for subject in _OF_THE_SHARED_NODE},
    "tests/operations/": "operations",
    # Two Spark sessions: one for the tests of tables, and one for the rest of the driver.
    **{f"tests/driver/{folder}/": "tables" for folder in ("ctas", "writes", "views")},
    "tests/driver/": "driver",
}
"""Group by the start of a test's id. The first match counts. Other tests are grouped by folder,
those with nodes of their own by file."""
_FILES = (_END_TO_END, "tests/faults/")
_ORDER = [
    CLUSTERS,
    "tables",
    "driver",
    "node",
    "tests/faults/chaos_cluster/test_run.py",
    f"{_END_TO_END}test_named_streams.py",
    "driver_deaths",
    f"{_END_TO_END}test_outages.py",
    "tests/faults/test_job_faults.py",
    f"{_END_TO_END}test_streams.py",
    f"{_END_TO_END}test_recovery.py",
    f"{_END_TO_END}test_materialized_views.py",
    f"{_END_TO_END}test_jobs.py",
    f"{_END_TO_END}test_documented_commands.py",
    f"{_END_TO_END}test_secrets.py",
    f"{_END_TO_END}test_job_commands.py",
    f"{_END_TO_END}test_jobs_on_kafka.py",
    "tests/frontends/rest",
    "tests/hostile",
    "tests/model_explorer",
    "operations",
    "tests",
    "tests/store/contract",
]
"""The longest groups first, so that all processes end at the same time."""
group_resources = ExitStack()
"""What the tests of a group share. It ends with the group: it would change other tests.

A fixture of a package lasts as long as the process, because the folders of tests are no packages.
"""


def group_of(nodeid: str) -> str:
    """Return the name of a test's group."""
    file = nodeid.partition("::")[0]
    groups = (group for prefix, group in _GROUPS.items() if nodeid.startswith(prefix))
    return next(groups, file if file.startswith(_FILES) else file.rpartition("/")[0])


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
