"""A builtin skill names tools that exist, or tools that are planned and say by what."""

from minara_skills.adapters.skill_packages import builtin_skills
from minara_tools.domain.local_tools import local_tools
from support.source import ROOT
from support.tools.all_tools import all_tools

PLANNED = ROOT / "services/skills/minara_skills/builtin/planned_tools.txt"


def existing() -> set[str]:
    return {entry.name for entry in (*all_tools(), *local_tools())}


def planned() -> dict[str, str]:
    lines = PLANNED.read_text("utf-8").splitlines()
    pairs = [line.split(None, 1) for line in lines if line and not line.startswith("#")]
    return {name: what for name, what in pairs}


def named() -> set[str]:
    return {name for skill in builtin_skills() for name in skill.tool_names}


def test_every_named_tool_exists_or_is_planned() -> None:
    assert named() <= existing() | set(planned())


def test_a_planned_tool_does_not_exist_yet() -> None:
    assert not set(planned()) & existing()


def test_a_planned_tool_is_named_by_a_skill_and_says_what_brings_it() -> None:
    assert set(planned()) <= named()
    assert all(planned().values())


def test_every_tool_that_needs_a_skill_has_one() -> None:
    always = {entry.name for entry in local_tools()}
    assert existing() - always <= named()
