"""Where checkpoints may be sent."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from minara_runtime.settings import Settings


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


def test_an_empty_one_is_none(tmp_path: Path) -> None:
    assert Settings(data_dir=tmp_path, audit_webhook="").audit_webhook is None


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
