"""README links lead somewhere, and every setting is documented."""

import re
from pathlib import Path

import pytest
from pydantic_settings import BaseSettings

from support.source import ROOT, name_of, tracked

LINK = re.compile(r"\]\((?!https?://)([^)#]+)\)")


@pytest.mark.parametrize("page", tracked("*.md", "docs/**.md"), ids=name_of)
def test_links_lead_somewhere(page: Path) -> None:
    missing = [
        link for link in LINK.findall(page.read_text("utf-8")) if not (page.parent / link).exists()
    ]
    assert not missing


def _settings() -> list[type[BaseSettings]]:
    from minara_gateway.settings import GatewaySettings
    from minara_orchestrator.settings import OrchestratorSettings
    from minara_skills.settings import SkillsSettings
    from minara_tools.settings import ToolsSettings
    from minara_workspace.settings import WorkspaceSettings

    return [GatewaySettings, OrchestratorSettings, SkillsSettings, ToolsSettings, WorkspaceSettings]


def test_every_variable_is_documented_and_none_is_made_up() -> None:
    known: set[str] = set()
    for settings in _settings():
        prefix = str(settings.model_config.get("env_prefix", ""))
        for name, field in settings.model_fields.items():
            alias = field.validation_alias
            known.add(alias if isinstance(alias, str) else f"{prefix}{name.upper()}")
    text = (ROOT / ".env.example").read_text("utf-8")
    documented = set(re.findall(r"^# ([A-Z][A-Z0-9_]+)=", text, re.MULTILINE))
    assert documented == known


def test_every_make_target_says_what_it_does() -> None:
    makefile = (ROOT / "Makefile").read_text("utf-8")
    declared = re.search(r"^\.PHONY: (.*)$", makefile, re.MULTILINE)
    assert declared is not None
    targets = set(declared[1].split())
    explained = set(re.findall(r"^([a-z-]+):.*## ", makefile, re.MULTILINE))
    assert targets - explained <= {"clean"}
    assert len(targets) <= 20


def test_ci_runs_check_test_and_where_needed_the_container_tests() -> None:
    lines = (ROOT / ".ci/run").read_text("utf-8").splitlines()
    assert [line.strip() for line in lines if line.lstrip().startswith("make ")] == [
        "make check",
        "make test",
        "make test-containers",
    ]


def test_no_page_names_this_machine() -> None:
    wrong = [
        name_of(path)
        for path in tracked()
        if path.suffix in {".py", ".md", ".toml", ".sh", ".yml", ".proto", ""}
        and re.search(r"/work/main|/root/\.", path.read_text("utf-8", errors="replace"))
        and path.name != "test_documents.py"
    ]
    assert not wrong
