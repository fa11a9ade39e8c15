"""How a driver reads its bootstrap, whose token can be read only once."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.driver.__main__ import take_bootstrap
from headrace.driver.link import read_addresses
from headrace.driver.process import build_bootstrap, read_handoff
from headrace.files import locations
from headrace.files.private_files import write_private
from headrace.model.messages import Bootstrap


@pytest.fixture
def bootstrap(tmp_path: Path) -> Bootstrap:
    return Bootstrap(
        session_id="se_1",
        epoch=1,
        token="key-of-the-driver",
        flight_secret="key-of-results",
        nodes=["http://127.0.0.1:1"],
        conf={},
        results=str(tmp_path),
        inline_limit=1,
        chunk_limit=1,
        lease_seconds=1,
        renew_seconds=1,
        orphan_seconds=1,
    )


def test_reading_a_bootstrap_file_removes_its_token(tmp_path: Path, bootstrap: Bootstrap) -> None:
    file = tmp_path / "bootstrap.json"
    write_private(file, bootstrap.model_dump_json())
    without_token, token = build_bootstrap(take_bootstrap(file))
    assert (without_token.token, token) == (None, "key-of-the-driver")
    assert "key-of" not in file.read_text()
    assert without_token.flight_secret == "key-of-results"
    with pytest.raises(SystemExit, match="Another driver has already read the token"):
        take_bootstrap(file)


def test_addresses_are_read_from_a_file_whose_token_was_removed(
    tmp_path: Path, bootstrap: Bootstrap
) -> None:
    file = tmp_path / "bootstrap.json"
    write_private(file, bootstrap.model_dump_json())
    take_bootstrap(file)
    assert read_addresses(file) == bootstrap.nodes


def test_no_addresses_without_a_readable_file(tmp_path: Path) -> None:
    (tmp_path / "half.json").write_text('{"nodes":')
    assert read_addresses(None) == []
    assert read_addresses(tmp_path / "missing.json") == []
    assert read_addresses(tmp_path / "half.json") == []


def test_reading_a_handoff_object_deletes_it(tmp_path: Path, bootstrap: Bootstrap) -> None:
    content = bootstrap.model_dump_json().encode()
    location = locations.write_handoff(str(tmp_path), "headrace-se_1-1", content)
    without_token, token = read_handoff(location)
    assert (without_token.token, token) == (None, "key-of-the-driver")
    assert not Path(location).exists()
    with pytest.raises(FileNotFoundError):
        read_handoff(location)
