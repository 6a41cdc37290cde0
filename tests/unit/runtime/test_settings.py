from pathlib import Path

import pytest
from pydantic_settings import SettingsConfigDict

from minara_core.taxonomy import Origin
from minara_runtime.settings import Settings, SettingsError, read

ISSUER = '[{"kid":"batch","public_key":"AAAA","origins":["agent"],"tool_sets":["read"]%s}]'


def refused(name: str) -> str:
    with pytest.raises(SettingsError) as caught:
        read(Settings)
    assert caught.value.metadata == {"field": name}
    assert caught.value.message.startswith(f"{name}: ")
    return caught.value.message


def test_without_an_environment_the_defaults_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/somebody")
    settings = read(Settings)
    assert settings.data_dir == Path("/home/somebody/.minara")
    assert (settings.log_level, settings.log_content) == ("info", False)
    assert settings.otlp_endpoint is None
    assert settings.trusted_issuers == ()


def test_settings_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MINARA_DATA_DIR", "/var/lib/minara")
    monkeypatch.setenv("MINARA_LOG_LEVEL", "DEBUG")
    monkeypatch.setenv("MINARA_TIME_ZONE", "Asia/Taipei")
    monkeypatch.setenv("MINARA_OTLP_ENDPOINT", "")
    monkeypatch.setenv("MINARA_TRUSTED_ISSUERS", ISSUER % ',"ceiling":3')
    settings = read(Settings)
    assert settings.data_dir == Path("/var/lib/minara")
    assert settings.log_level == "debug"
    assert settings.time_zone == "Asia/Taipei"
    assert settings.otlp_endpoint is None
    (issuer,) = settings.trusted_issuers
    assert (issuer.kid, issuer.origins, issuer.ceiling) == ("batch", (Origin.AGENT,), 3)


def test_a_home_folder_is_spelled_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/somebody")
    monkeypatch.setenv("MINARA_DATA_DIR", "~/elsewhere")
    assert read(Settings).data_dir == Path("/home/somebody/elsewhere")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("MINARA_LOG_LEVEL", "hunter2"),
        ("MINARA_LOG_CONTENT", "hunter2"),
        ("MINARA_TIME_ZONE", "Mars/hunter2"),
        ("MINARA_TIME_ZONE", "../../hunter2"),
        ("MINARA_TRUSTED_ISSUERS", "hunter2"),
        ("MINARA_TRUSTED_ISSUERS", '{"kid":"hunter2"}'),
        ("MINARA_TRUSTED_ISSUERS", ISSUER % ',"ceiling":4'),
        ("MINARA_TRUSTED_ISSUERS", ISSUER % ',"admin":"hunter2"'),
    ],
)
def test_an_invalid_setting_is_named_without_its_value(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)
    assert "hunter2" not in refused(name)


def test_a_missing_required_setting_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    class WithKey(Settings):
        model_config = SettingsConfigDict(env_prefix="MINARA_TEST_")

        venue_key: str

    with pytest.raises(SettingsError) as caught:
        read(WithKey)
    assert caught.value.metadata == {"field": "MINARA_TEST_VENUE_KEY"}
