"""`headrace shell` with real keys, a real node and a real driver."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cli.shell.shell_terminal import CTRL_C, ShellTerminal
from tests.support.node import NodeProcess

pytestmark = pytest.mark.spark

_SLOW = "SELECT reflect('java.lang.Thread', 'sleep', 60000L) FROM range(0, 1, 1, 1)"
_CSV = '''\
NAME,id,tags,day,raw,ratio
"ann, ""a""",1,"[""x"", null]",2020-01-31,aGk=,1.5
"",2,[],,,
,3,,2020-02-01,,
'''


@pytest.fixture
def shell(node: NodeProcess, session: str, tmp_path: Path) -> Iterator[ShellTerminal]:
    terminal = ShellTerminal({**node.client_environment, "XDG_STATE_HOME": str(tmp_path)}, 120)
    terminal.open("shell", "--session", session)
    yield terminal
    terminal.close()


def test_statements_completion_cancel_and_copies_work_together(
    node: NodeProcess, session: str, shell: ShellTerminal, tmp_path: Path
) -> None:
    columns = "id INT, name STRING, tags ARRAY<STRING>, day DATE, raw BINARY, ratio DECIMAL(5,2)"
    shell.enter(f"CREATE TABLE typed_people (\r{columns});", "CREATE TABLE · ")

    file = tmp_path / "people.csv"
    file.write_text(_CSV)
    shell.enter(f"\\copy typed_people from '{file}'", "3 rows loaded")
    assert node.rows("SELECT * FROM typed_people ORDER BY id", session) == [
        [1, 'ann, "a"', ["x", None], "2020-01-31", "aGk=", "1.50"],
        [2, "", [], None, None, None],
        [3, None, None, "2020-02-01", None, None],
    ]

    shell.enter(f"\\copy (TABLE typed_people) to '{tmp_path}/out.json'", "Wrote")
    shell.enter(f"\\copy typed_people from '{tmp_path}/out.json'", "3 rows loaded")
    distinct = "SELECT count(*) FROM (SELECT DISTINCT * FROM typed_people)"
    assert node.rows(distinct, session) == [["3"]]

    file.write_text("id\nmany\n")
    refused = shell.enter(f"\\copy typed_people from '{file}'", "No row was loaded")
    assert "column id: 'many' is not int" in refused

    shell.type("SELECT count(*) FROM typed_peo")
    shell.wait_for("typed_people")
    assert " 6\n" in shell.enter("\t;", "1 row · ")

    shell.enter(f"{_SLOW};", "running")
    shell.type(CTRL_C)
    shell.wait_for("Cancelled st_")
    assert shell.leave() == 0
