from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from headrace.config.profiles import BACKENDS, Profile
from headrace.config.settings import load
from headrace.errors import InvalidSetting
from headrace.model.result import ResultHolder


@pytest.fixture(autouse=True)
def _empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_flags_come_before_environment_before_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "headrace.toml").write_text(
        '[http]\nhost = "::1"\nport = 1\n[lease]\nrenew = "7s"\n[profiles.big]\nmaster = "local[8]"'
    )
    monkeypatch.setenv("HEADRACE_HTTP__HOST", "127.0.0.2")
    monkeypatch.setenv("HEADRACE_HTTP__PORT", "2")

    settings = load({"http": {"port": 3}})

    assert settings.http.port == 3
    assert settings.http.host == "127.0.0.2"
    assert settings.lease.renew == timedelta(seconds=7)
    assert settings.profile("big").master == "local[8]"
    assert settings.http.advertise is None


def test_the_file_may_be_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "other.toml"
    file.write_text('log_level = "debug"')
    monkeypatch.setenv("HEADRACE_CONFIG", str(file))

    assert load().log_level == "debug"


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("[http]\nprot = 1", "'http.port'"),
        ("[stroe]\nurl = 'x'", "'store'"),
        ("[profiles.big]\nmastre = 'local'", "'profiles.big.master'"),
    ],
)
def test_an_unknown_key_names_the_nearest_one(tmp_path: Path, text: str, named: str) -> None:
    (tmp_path / "headrace.toml").write_text(text)

    with pytest.raises(InvalidSetting, match=rf"did you mean {re.escape(named)}\?$"):
        load()


def test_an_unknown_variable_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_STROE__URL", "x")

    with pytest.raises(
        InvalidSetting, match=r"HEADRACE_STROE__URL.*did you mean HEADRACE_STORE__URL\?"
    ):
        load()


def profiles(**fields: str) -> dict[str, Any]:
    return {"profiles": {"x": fields}}


def submitted(**fields: str) -> dict[str, Any]:
    return profiles(backend="spark-submit", deploy_mode="cluster", **fields)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"http": {"port": 70000}}, "'http.port'.*65535"),
        ({"lease": {"renew": 5}}, "'lease.renew'.*Add a unit, for example 5s"),
        ({"log_level": "loud"}, "'log_level'.*'debug'"),
        (profiles(deploy_mode="cluster"), "'profiles.x'.*only the backend spark-submit"),
        (profiles(cluster_url="http://rm:8088"), "'profiles.x'.*only the backend spark-submit"),
        (profiles(region="eu-west-1"), "'profiles.x'.*only the backend emr-serverless takes appl"),
        (profiles(backend="yarn"), "'profiles.x.backend'.*" + ".*".join(map(repr, BACKENDS))),
        (submitted(master="yarn"), "'profiles.x'.*needs cluster_url"),
        (
            submitted(master="spark://m:7077"),
            "'profiles.x'.*Spark cannot run Python in cluster mode",
        ),
        (
            profiles(master="spark://m:7077", encrypt_rpc="true"),
            "'profiles.x'.*encrypt_rpc on a standalone cluster needs spark.authenticate.secret",
        ),
        (
            profiles(
                backend="emr-serverless",
                application_id="a",
                execution_role_arn="r",
                encrypt_rpc="true",
            ),
            "'profiles.x'.*spark.ssl.internode.enabled",
        ),
        ({"tls": {"cert": "c"}}, "'tls'.*cert and key belong together"),
        ({"tls": {"client_key": "k"}}, "'tls'.*client_cert and client_key belong together"),
        ({"tls": {"client_ca": "a"}}, "'tls'.*client_ca needs cert and key"),
        (submitted(master="k8s://https://k"), "^Drivers of the profile 'x'.*catalog.kind"),
    ],
)
def test_a_value_that_is_not_allowed_is_explained(flags: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidSetting, match=message):
        load(flags)


@pytest.mark.parametrize(
    ("host", "stored"),
    [
        ("0:0:0:0:0:0:0:1", "::1"),
        ("::ffff:127.0.0.1", "127.0.0.1"),
        ("10.0.0.5", "10.0.0.5"),
        ("fe80::1%eth0", None),
        ("0.0.0.0", None),
    ],
)
def test_an_address_for_flight_has_one_spelling(host: str, stored: str | None) -> None:
    flags = {"results": {"flight_host": host}}
    if stored is None:
        with pytest.raises(InvalidSetting, match="not the address of one host"):
            load(flags)
    else:
        assert load(flags).results.flight_host == stored


@pytest.mark.parametrize(
    ("endpoint", "is_on_loopback"),
    [
        ("127.0.0.1:4000", True),
        ("127.9.9.9:4000", True),
        ("[::1]:4000", True),
        ("localhost:4000", True),
        ("10.0.0.5:4000", False),
        ("[2001:db8::1]:4000", False),
        ("name:4000", False),
    ],
)
def test_a_holder_on_loopback_is_recognised(endpoint: str, is_on_loopback: bool) -> None:
    holder = ResultHolder(session_id="se_1", epoch=1, endpoint=endpoint)
    assert holder.is_on_loopback is is_on_loopback


def test_a_file_that_is_no_toml_is_an_error_of_ours(tmp_path: Path) -> None:
    (tmp_path / "headrace.toml").write_text("[http")

    with pytest.raises(InvalidSetting, match=r"headrace\.toml is not valid TOML"):
        load()


def test_settings_are_frozen() -> None:
    with pytest.raises(ValidationError):
        load().http.port = 1  # type: ignore[misc]


def test_the_default_profile_is_always_there_and_others_are_named() -> None:
    settings = load({"profiles": {"big": {}}})

    assert settings.profile("default") == Profile()
    assert settings.profile("big") == Profile()
    with pytest.raises(InvalidSetting, match=r"'small' does not exist\. Profiles: big, default"):
        settings.profile("small")


def test_a_profile_may_state_the_default_of_a_key_that_its_backend_does_not_have() -> None:
    settings = load(profiles(deploy_mode="client"))
    assert settings.profile("x") == Profile()


def test_an_application_on_yarn_may_wait_longer_for_its_turn() -> None:
    yarn = {"backend": "spark-submit", "master": "yarn"}
    settings = load({"profiles": {"x": yarn, "y": {**yarn, "start_timeout": "3m"}}})

    timeouts = [settings.profile(name).start_timeout for name in ("default", "x", "y")]
    assert [one.total_seconds() for one in timeouts] == [120, 600, 180]


def test_a_profile_of_emr_serverless_says_what_it_needs() -> None:
    with pytest.raises(InvalidSetting, match=r"'profiles\.big'.*execution_role_arn") as raised:
        load({"profiles": {"big": {"backend": "emr-serverless", "application_id": "00f1"}}})
    assert "application_id" not in raised.value.message
    with pytest.raises(InvalidSetting, match="application_id and execution_role_arn"):
        load({"profiles": {"big": {"backend": "emr-serverless"}}})


def test_drivers_elsewhere_cannot_use_the_catalog_of_the_nodes_home() -> None:
    known = {"backend": "emr-serverless", "application_id": "00f1", "execution_role_arn": "arn:x"}
    with pytest.raises(InvalidSetting, match=r"'big'.*set catalog\.kind to external"):
        load({"profiles": {"big": known}})


def test_a_driver_has_longer_to_start_where_starting_takes_longer() -> None:
    known = {"backend": "emr-serverless", "application_id": "00f1", "execution_role_arn": "arn:x"}
    settings = load(
        {
            "profiles": {"big": known, "set": {**known, "start_timeout": "3m"}},
            "catalog": {"kind": "external"},
        }
    )

    assert settings.profile("default").start_timeout == timedelta(minutes=2)
    assert settings.profile("big").start_timeout == timedelta(minutes=10)
    assert settings.profile("set").start_timeout == timedelta(minutes=3)


def test_places_are_in_the_home(tmp_path: Path) -> None:
    settings = load({"home": "h"})

    assert settings.store_url == f"sqlite:///{tmp_path}/h/headrace.db"
    assert settings.results_location == f"{tmp_path}/h/results"
    assert settings.warehouse == f"{tmp_path}/h/warehouse"


WEBHOOK = {"url": "https://hooks.example.com/", "secret": "${secret:hook}", "events": ["run.late"]}
PROVIDER = {"provider": "environment"}


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"webhooks": {"a": WEBHOOK}}, "webhooks.a.secret needs secrets.provider"),
        (
            {"webhooks": {"a": {**WEBHOOK, "url": "https://ada:pw-1@a/"}}, "secrets": PROVIDER},
            "'webhooks.a.url': the URL of an endpoint has no user",
        ),
        (
            {"webhooks": {"a": {**WEBHOOK, "secret": "whsec_pw-1"}}, "secrets": PROVIDER},
            "'webhooks.a.secret': this is not a reference",
        ),
        (
            {"webhooks": {"a": {**WEBHOOK, "events": []}}, "secrets": PROVIDER},
            "'webhooks.a.events'",
        ),
        ({"outbox": {"retry_for": "7d"}}, "retention must be longer than retry_for"),
        ({"outbox": {"private_networks": ["10.0.0.1/8"]}}, "'outbox.private_networks.0"),
        ({"openlineage": {"api_key": "${secret:key}"}}, "api_key needs url"),
        (
            {"openlineage": {"url": "https://a/", "api_key": "${secret:key}"}},
            "openlineage.api_key needs secrets.provider",
        ),
        ({"openlineage": {"url": "https://a/", "file": "/b"}}, "exclude each other"),
    ],
    ids=str,
)
def test_what_nodes_could_not_send_is_refused_at_the_start(
    settings: dict[str, Any], words: str
) -> None:
    with pytest.raises(InvalidSetting) as raised:
        load(settings)
    assert words in str(raised.value)
    assert "pw-1" not in str(raised.value)
