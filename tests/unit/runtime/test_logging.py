import json
import logging as standard_logging
import stat
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
import structlog

from minara_runtime import logging, telemetry
from minara_runtime.settings import Settings


@pytest.fixture(autouse=True)
def _restored() -> Generator[None]:
    level = standard_logging.getLogger().level
    yield
    logging.close()
    standard_logging.getLogger().setLevel(level)
    structlog.reset_defaults()
    structlog.contextvars.clear_contextvars()


def lines(folder: Path) -> list[dict[str, Any]]:
    text = (folder / logging.LOG_FILE).read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


def configured(folder: Path, *, console: bool = False, content: bool = False) -> None:
    settings = Settings(data_dir=folder, log_content=content, log_level="info")
    logging.configure(settings, console=console)


def test_a_line_carries_the_schema_and_what_is_bound(tmp_path: Path) -> None:
    configured(tmp_path)
    logging.bind(turn_id="t1", session_id="s1", request_id="")
    with telemetry.configure(Settings(data_dir=tmp_path / "x"), "test").span("work"):
        logging.get_logger("turn").info("turn_opened", step=3)
    (line,) = lines(tmp_path)
    assert line["event"] == "turn_opened"
    assert (line["level"], line["category"], line["step"]) == ("info", "turn", 3)
    assert (line["turn_id"], line["session_id"]) == ("t1", "s1")
    assert "request_id" not in line
    assert len(line["trace_id"]) == 32
    assert line["ts"].endswith("Z")


def test_levels_below_the_set_one_are_left_out(tmp_path: Path) -> None:
    configured(tmp_path)
    logging.get_logger("x").debug("fine_detail")
    logging.get_logger("x").warning("odd")
    assert [line["event"] for line in lines(tmp_path)] == ["odd"]


def test_secrets_are_taken_out(tmp_path: Path) -> None:
    configured(tmp_path, content=True)
    secret = "sk-abcdefghijklmnopqrstuvwx"
    token = "eyJhbGciOiJFZERTQSJ9.eyJzdWIiOiJsb2NhbCJ9.c2lnbmF0dXJlc2lnbmF0dXJl"
    log = logging.get_logger("x")
    log.info("called", api_key="my own", grant="anything", note=f"with {secret}", text=token)
    standard_logging.getLogger("foreign").warning("header: Bearer abcdefghijklmnopqrstuvwxyz")
    text = (tmp_path / logging.LOG_FILE).read_text()
    for leaked in ("my own", "anything", secret, token, "abcdefghijklmnopqrstuvwxyz"):
        assert leaked not in text


def test_message_text_is_hidden_unless_asked_for(tmp_path: Path) -> None:
    for content, expected in ((False, "[content]"), (True, "buy everything")):
        configured(tmp_path / str(content), content=content)
        logging.get_logger("x").info("said", text="buy everything")
        (line,) = lines(tmp_path / str(content))
        assert line["text"] == expected


def test_an_exception_is_told_by_type_and_place_without_its_text(tmp_path: Path) -> None:
    for content in (False, True):
        configured(tmp_path / str(content), content=content)
        try:
            try:
                raise KeyError("buy everything")
            except KeyError as error:
                raise ValueError("buy everything") from error
        except ValueError as error:
            logging.get_logger("x").error("broke", exc_info=error)
        (line,) = lines(tmp_path / str(content))
        assert "ValueError" in line["exception"]
        assert "KeyError" in line["exception"]
        assert "test_logging.py" in line["exception"]
        assert ("buy everything" in line["exception"]) is content


def test_logs_of_other_libraries_have_the_same_shape(tmp_path: Path) -> None:
    configured(tmp_path)
    standard_logging.getLogger("sqlalchemy.pool").warning("pool of %s", "three")
    (line,) = lines(tmp_path)
    assert (line["event"], line["category"]) == ("pool of three", "sqlalchemy.pool")


def test_the_console_is_silent_unless_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    configured(tmp_path)
    logging.get_logger("x").info("quiet")
    assert capsys.readouterr().err == ""
    configured(tmp_path, console=True)
    logging.get_logger("x").info("loud")
    assert json.loads(capsys.readouterr().err)["event"] == "loud"
    assert [line["event"] for line in lines(tmp_path)] == ["quiet", "loud"]


def test_only_the_owner_may_read_the_log(tmp_path: Path) -> None:
    configured(tmp_path)
    path = tmp_path / logging.LOG_FILE
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
