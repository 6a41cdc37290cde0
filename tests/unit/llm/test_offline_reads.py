"""Every tool that only reads is understood, may be called, and has words of its own."""

import pytest

from minara_core.script import locale_of
from minara_core.taxonomy import PermissionTier
from minara_llm.offline.answer import RENDERERS
from minara_llm.offline.plan import plan
from minara_llm.offline.steps import ORDER_TOOLS
from minara_skills.adapters.skill_packages import builtin_skills
from minara_skills.domain.registry import register
from minara_skills.domain.router import route
from support.hundred import HundredMessage, hundred_messages
from support.tools.all_tools import all_tools

ENTRIES = {entry.name: entry for entry in all_tools()}
READS = sorted(n for n, e in ENTRIES.items() if e.permission_tier is PermissionTier.READ_ONLY)
LANGUAGES = {"en": ("en",), "zh": ("zh-Hant", "zh-Hans"), "ko": ("ko",)}
REGISTRY = register(builtin_skills())


def tools_in(message: HundredMessage) -> list[str]:
    return [call.split(" ")[0] for call in message.calls]


@pytest.mark.parametrize("name", READS)
def test_every_reading_tool_has_words_and_a_question_in_each_language(name: str) -> None:
    assert name in RENDERERS
    for locales in LANGUAGES.values():
        asked = [one for one in hundred_messages() if one.locale in locales]
        assert any(name in [call.name for call in plan(one.text).calls] for one in asked)


def test_nothing_has_words_that_no_tool_gives() -> None:
    assert set(RENDERERS) == set(READS)
    assert set(ENTRIES) - set(READS) >= ORDER_TOOLS


@pytest.mark.parametrize("message", hundred_messages(), ids=lambda one: one.text)
def test_a_message_is_answered_in_its_own_script(message: HundredMessage) -> None:
    assert locale_of(message.text) == message.locale


@pytest.mark.parametrize("message", hundred_messages(), ids=lambda one: one.text)
def test_what_a_message_needs_may_be_called_in_its_turn(message: HundredMessage) -> None:
    selection = route(REGISTRY, message.text, tool_names=list(ENTRIES))
    assert set(tools_in(message)) <= set(selection.callable_tools)
    assert set(READS) <= set(selection.callable_tools)
