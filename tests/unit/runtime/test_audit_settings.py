"""Where checkpoints may be sent."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from minara_runtime.settings import Settings, read


@pytest.mark.parametrize(
    "url",
    [
        "https://store.example/audit",
        "http://127.0.0.1:9000/",
        "http://localhost/x",
        "http://[::1]:1/",
    ],
)
def test_https_or_loopback_is_taken(tmp_path: Path, url: str) -> None:
    assert Settings(data_dir=tmp_path, audit_webhook=url).audit_webhook == url


@pytest.mark.parametrize("name", ["AUDIT_WEBHOOK", "LISTEN", "GRACE_SECONDS", "TOOLS_ADDRESS"])
def test_an_empty_variable_is_one_that_is_not_set(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv(f"MINARA_{name}", "")
    field = name.lower()
    assert getattr(read(Settings), field) == Settings.model_fields[field].default


@pytest.mark.parametrize(
    "url",
    [
        "http://store.example/audit",
        "http://127.0.0.1.example/",
        "ftp://127.0.0.1/",
        "https://",
        "https://me:secret@store.example/",
        "store.example",
    ],
)
def test_anything_else_is_refused(tmp_path: Path, url: str) -> None:
    with pytest.raises(ValidationError) as refused:
        Settings(data_dir=tmp_path, audit_webhook=url)
    assert "secret" not in str(refused.value)
