from pathlib import Path

import pytest

from minara_runtime.settings import SettingsError
from minara_runtime.tls import read_tls


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
    assert caught.value.metadata == {"field": "tls_certificate"}
