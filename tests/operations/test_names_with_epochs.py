"""The page on lost drivers lists every kind of name that carries an epoch, and who removes it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from headrace.control.launchers.base import launch_name
from headrace.driver.ctas.base import make_staging_name
from headrace.driver.spark_version.commit_protocol import staging_prefixes
from headrace.driver.streams.jdbc_sink import StagingTables
from headrace.model.result import make_location
from headrace.model.session import DriverLease
from headrace.model.transaction import writer_name

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "explanation" / "lost-drivers.md").read_text()
QUERY = "sq_" + "a" * 32
NAMES = {
    launch_name(DriverLease("<session>", 7)).replace("7", "<epoch>"),
    make_location("x", "<statement>", 7, 8).rpartition("/")[2].replace("7", "<epoch>"),
    make_staging_name("tx_<transaction>", 7).replace("7", "<epoch>"),
    StagingTables("t", QUERY).name(7).replace("a" * 12, "<query>").replace("7", "<epoch>"),
    *(prefix.replace("7", "<epoch>") for prefix in staging_prefixes(writer_name("<session>", 7))),
}


@pytest.mark.parametrize("name", sorted(NAMES))
def test_a_name_with_an_epoch_has_a_row_that_says_who_removes_it(name: str) -> None:
    shown = name.replace("-8", "-<attempt>")
    rows = [line.split("|") for line in PAGE.splitlines() if shown in line.partition("| ")[2]]

    assert rows, shown
    assert all(cell.strip() for row in rows for cell in row[1:4])


def test_every_module_that_names_something_after_an_epoch_is_known() -> None:
    """A new name with an epoch needs a row on the page, and a line above."""
    pattern = re.compile(r"""\bf["'].*epoch\}""")
    found = {
        str(file.relative_to(ROOT / "src" / "headrace"))
        for file in (ROOT / "src" / "headrace").rglob("*.py")
        for line in file.read_text().splitlines()
        # Messages to users and actors of events name an epoch too, and create nothing.
        if pattern.search(line)
        and not re.search(r"LINK_PREFIX|driver:|DRIVER_ACTOR|[Ee]poch \{", line)
    }
    assert found == {
        "control/launchers/base.py",
        "driver/ctas/base.py",
        "driver/streams/jdbc_sink.py",
        "model/result.py",
        "model/transaction.py",
    }
