"""What a launcher tells a driver, and that it is told once."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.driver.bootstrap import addresses, read_bootstrap, read_handoff
from headrace.model.messages import Bootstrap
from headrace.private_files import write_private
from headrace.storage import handoff


@pytest.fixture
def bootstrap(tmp_path: Path) -> Bootstrap:
    return Bootstrap(
        session_id="se_1",
        epoch=1,
        token="secret",
        nodes=["http://127.0.0.1:1"],
        conf={},
        results=str(tmp_path),
        inline_limit=1,
        chunk_limit=1,
        lease_seconds=1,
        renew_seconds=1,
        orphan_seconds=1,
    )


def test_a_file_stays_without_its_token(tmp_path: Path, bootstrap: Bootstrap) -> None:
    file = tmp_path / "bootstrap.json"
    write_private(file, bootstrap.model_dump_json())
    without, token = read_bootstrap(file)
    assert (without.token, token) == (None, "secret")
    assert "secret" not in file.read_text()
    assert addresses(file) == bootstrap.nodes
    with pytest.raises(SystemExit, match="taken by a driver already"):
        read_bootstrap(file)


def test_an_object_is_gone_once_it_is_read(tmp_path: Path, bootstrap: Bootstrap) -> None:
    place = handoff.write_handoff(
        str(tmp_path), "headrace-se_1-1", bootstrap.model_dump_json().encode()
    )
    without, token = read_handoff(place)
    assert (without.token, token) == (None, "secret")
    assert not Path(place).exists()
    with pytest.raises(FileNotFoundError):
        read_handoff(place)
    assert addresses(None) == []
