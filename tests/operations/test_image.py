"""`deploy/Dockerfile`: the parts of it that can be checked without a container engine.

No test builds the image: the environments of the tests have no container engine.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from ruamel.yaml import YAML
from tests.operations.test_kubernetes import POD, STATEFUL_SET
from tests.support.deployed_settings import load_settings

from headrace.control.host import class_archive
from headrace.errors import InvalidSetting
from headrace.frontends.process import _check_tls

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"


def instructions() -> list[tuple[str, str]]:
    """Return the instructions of the file, each with its arguments in one line."""
    lines = (DEPLOY / "Dockerfile").read_text().splitlines()
    text = "\n".join(line for line in lines if not line.startswith("#"))
    pairs = (line.split(maxsplit=1) for line in text.replace("\\\n", " ").splitlines() if line)
    return [(name, " ".join(arguments.split())) for name, arguments in pairs]


INSTRUCTIONS = instructions()
FINAL_STAGE = INSTRUCTIONS[max(i for i, (name, _) in enumerate(INSTRUCTIONS) if name == "FROM") :]


def final(name: str) -> list[str]:
    """Return the arguments of the instructions of the image itself, not of its build."""
    return [arguments for each, arguments in FINAL_STAGE if each == name]


def place(name: str, arguments: str) -> int:
    return FINAL_STAGE.index((name, arguments))


def test_the_image_copies_only_files_that_exist_and_that_the_context_contains() -> None:
    dockerfile = (DEPLOY / "Dockerfile").read_text()
    context = (DEPLOY / "Dockerfile.dockerignore").read_text().splitlines()
    compose = YAML(typ="safe").load((DEPLOY / "compose" / "compose.yaml").read_text())
    image = compose["services"]["node1"]["build"]
    copied = [
        source
        for name, arguments in INSTRUCTIONS
        if name == "COPY" and not arguments.startswith("--from=build ")
        for source in arguments.split()[:-1]
    ]
    locks = re.findall(r"requirements/[\w.]+\.lock", dockerfile)

    assert (DEPLOY / "compose" / image["context"]).samefile(ROOT)
    assert (ROOT / image["dockerfile"]).samefile(DEPLOY / "Dockerfile")
    assert {f"!{source}" for source in copied} == {line for line in context if line.startswith("!")}
    assert locks
    assert [name for name in [*copied, *locks] if not (ROOT / name).exists()] == []


def test_every_package_is_installed_with_the_hashes_of_a_lock() -> None:
    commands = " && ".join(arguments for name, arguments in INSTRUCTIONS if name == "RUN")
    installs = re.findall(r"(?:pip install|uv build)[^&]*", commands)

    assert len(installs) == 3
    for install in installs:
        assert "--require-hashes" in install or "--constraints requirements/demo.lock" in install
    assert '"headrace[all] @ file://' in installs[-1]


def test_the_node_is_not_root_and_does_not_collect_processes_itself() -> None:
    security = POD["securityContext"]
    user = place("USER", "185:185")
    last = [name for name, _ in FINAL_STAGE[user:]]

    assert (security["runAsUser"], security["runAsGroup"]) == (185, 185)
    assert last.count("USER") == 1
    assert json.loads(final("ENTRYPOINT")[0]) == ["tini", "--", "headrace"]
    assert json.loads(final("CMD")[0]) == ["serve"]
    assert " tini" in " ".join(final("RUN"))


def test_the_archive_of_classes_belongs_to_the_image_and_not_to_the_volume() -> None:
    archive = place("RUN", f"python -m {class_archive.__name__}")
    (volume,) = final("VOLUME")
    cache = re.search(r"XDG_CACHE_HOME=(\S+)", " ".join(final("ENV")))
    (template,) = STATEFUL_SET["volumeClaimTemplates"]
    mounts = {mount["name"]: mount["mountPath"] for mount in POD["containers"][0]["volumeMounts"]}

    assert cache is not None
    assert place("USER", "185:185") < archive < place("VOLUME", volume)
    assert not Path(cache[1]).is_relative_to(volume)
    assert Path(mounts[template["metadata"]["name"]]).is_relative_to(volume)
    assert final("WORKDIR") == [volume]


def test_the_check_of_health_asks_the_port_on_which_the_node_listens() -> None:
    assignments = " ".join(final("ENV")).split()
    settings = load_settings(
        dict(each.split("=", 1) for each in assignments if each.startswith("HEADRACE_"))
    )
    (check,) = final("HEALTHCHECK")
    _, _, command = check.partition("CMD ")

    assert settings.http.host == "0.0.0.0"
    assert settings.http.auth
    # Who starts the image decides how its port is protected.
    with pytest.raises(InvalidSetting, match="three ways"):
        _check_tls(settings)
    assert final("EXPOSE") == [str(settings.http.port)]
    assert f"http://localhost:{settings.http.port}/health" in json.loads(command)[-1]
