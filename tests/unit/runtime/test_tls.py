from collections.abc import Mapping
from pathlib import Path

import pytest

from minara_runtime.settings import Settings, SettingsError
from minara_runtime.tls import read_tls, tls_of
from support.cluster_certificates import Authority


def test_tls_material_is_read_from_files_and_never_shown(tmp_path: Path) -> None:
    paths = {name: tmp_path / name for name in ("certificate", "private_key", "authority")}
    for name, path in paths.items():
        path.write_text(f"{name} of hunter2")
    tls = read_tls(**paths)
    assert tls.private_key == b"private_key of hunter2"
    assert "hunter2" not in repr(tls)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    absent = tmp_path / "absent"
    with pytest.raises(SettingsError, match="absent") as caught:
        read_tls(certificate=absent, private_key=absent, authority=absent)
    assert caught.value.metadata == {"field": "MINARA_TLS_CERTIFICATE"}


def settings_of(variables: Mapping[str, str]) -> Settings:
    fields = {name.removeprefix("MINARA_").lower(): value for name, value in variables.items()}
    return Settings(**fields)  # pyright: ignore[reportArgumentType] - texts, as the environment has


def test_a_service_shows_a_certificate_that_names_it(tmp_path: Path) -> None:
    variables = Authority(tmp_path).settings("tools")
    assert tls_of(settings_of(variables), "tools") is not None
    assert tls_of(settings_of({}), "tools") is None
    with pytest.raises(SettingsError, match="DNS:skills") as caught:
        tls_of(settings_of(variables), "skills")
    assert caught.value.metadata == {"field": "MINARA_TLS_CERTIFICATE"}


@pytest.mark.parametrize(
    "field", ["MINARA_TLS_CERTIFICATE", "MINARA_TLS_PRIVATE_KEY", "MINARA_TLS_AUTHORITY"]
)
def test_what_is_missing_or_no_such_thing_is_named_before_anything_starts(
    tmp_path: Path, field: str
) -> None:
    variables = dict(Authority(tmp_path).settings("tools"))
    (tmp_path / "words").write_text("hunter2")
    without = {name: value for name, value in variables.items() if name != field}
    for wrong in (variables | {field: str(tmp_path / "words")}, without):
        with pytest.raises(SettingsError) as caught:
            tls_of(settings_of(wrong), "tools")
        assert caught.value.metadata == {"field": field}
        assert "hunter2" not in caught.value.message


def test_a_key_that_belongs_to_another_certificate_is_refused(tmp_path: Path) -> None:
    ours, theirs = (Authority(tmp_path / name).settings("tools") for name in ("a", "b"))
    mixed = dict(ours) | {"MINARA_TLS_PRIVATE_KEY": theirs["MINARA_TLS_PRIVATE_KEY"]}
    with pytest.raises(SettingsError, match="does not belong"):
        tls_of(settings_of(mixed), "tools")
