"""SKILL.md packages: what is read, what is refused, and the seed's own skill."""

from pathlib import Path
from typing import Any

import pytest

from minara_core.taxonomy import AssetClass, LifecycleStage, RiskTier
from minara_skills.adapters.skill_packages import builtin_skills, parse_skill, read_packages
from minara_skills.domain.registry import SkillInvalid, register
from minara_skills.domain.skill import Activation, estimated_tokens
from support.skills_sessions import a_skill, routed_by
from support.source import ROOT

BUILTIN_FOLDER = ROOT / "services/skills/minara_skills/builtin"
PAGE = """---
name: a-skill
description: What it is for.
metadata:
  minara:
    id: test.skill
    priority: 12
    tool_names: [get_price]
    roles: [reader]
    risk_tier: 2
    routing:
      lifecycle_stages: [discover]
      keywords: [Price, ＰＲＩＣＥ, 價格]
      terms: ["move:buy", "topic:price"]
      asset_classes: [crypto_major]
---

# Do this

First this.
"""


def test_a_page_is_read_whole() -> None:
    skill = parse_skill(PAGE, "test.skill")
    assert skill.skill_id == "test.skill"
    assert skill.priority == 12
    assert skill.risk_tier is RiskTier.PREPARE
    assert skill.activation is Activation.AUTO
    assert skill.tool_names == ("get_price",)
    assert skill.roles == ("reader",)
    assert skill.routing.stages == {LifecycleStage.DISCOVER}
    assert skill.routing.keywords == ("price", "價格")
    assert skill.routing.terms == ("move:buy", "topic:price")
    assert skill.routing.asset_classes == {AssetClass.CRYPTO_MAJOR}
    assert skill.prompt == "# Do this\n\nFirst this."


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("---\nname", "name", "no frontmatter"),
        ("risk_tier: 2", "risk_tier: 9", "risk_tier"),
        ("id: test.skill", "id: other.skill", "folder"),
        ("id: test.skill", "id: Test Skill", "id"),
        ("    roles: [reader]", "    rolls: [reader]", "rolls"),
        ("lifecycle_stages: [discover]", "lifecycle_stages: [dream]", "lifecycle_stages"),
        ('"move:buy"', '"move:steal"', "terms"),
        ("tool_names: [get_price]", "tool_names: ['rm -rf']", "tool_names"),
        ("description: What", "description: [", "YAML"),
    ],
)
def test_a_broken_page_is_refused_by_name_and_reason(old: str, new: str, why: str) -> None:
    with pytest.raises(SkillInvalid, match=r"^test\.skill: .*" + why):
        parse_skill(PAGE.replace(old, new), "test.skill")


def test_packages_lie_one_level_deep(tmp_path: Path) -> None:
    for place in ("test.skill", "deep/er/test.skill"):
        (tmp_path / place).mkdir(parents=True)
        (tmp_path / place / "SKILL.md").write_text(PAGE, encoding="utf-8")
    (tmp_path / "notes.txt").write_text("no package", encoding="utf-8")
    assert [skill.skill_id for skill in read_packages(tmp_path.iterdir())] == ["test.skill"]


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"description": " "}, "no description"),
        ({"description": "x" * 201}, "over 200"),
        ({"prompt": ""}, "0 tokens"),
        ({"prompt": "x" * 2_881}, "801 tokens"),
        ({"routing": routed_by("a", co_activates=("nobody",))}, "nobody"),
    ],
)
def test_a_skill_outside_of_the_limits_is_not_registered(changes: dict[str, Any], why: str) -> None:
    with pytest.raises(SkillInvalid, match=why):
        register([a_skill(**changes)])


def test_a_prompt_of_exactly_the_limit_is_registered() -> None:
    assert register([a_skill(prompt="x" * 2_880)]).skills


def test_an_id_is_there_once() -> None:
    with pytest.raises(SkillInvalid, match="twice"):
        register([a_skill(), a_skill()])


def test_equal_keywords_need_different_priorities() -> None:
    one = a_skill("one", priority=5, routing=routed_by("swap"))
    with pytest.raises(SkillInvalid, match="swap"):
        register([one, a_skill("two", priority=5, routing=routed_by("swap"))])
    assert len(register([one, a_skill("two", priority=6, routing=routed_by("swap"))]).skills) == 2


def test_builtin_skills_register() -> None:
    skills = builtin_skills()
    assert not register(skills).missing
    assert all(estimated_tokens(skill.prompt) >= 150 for skill in skills)


def test_only_skills_of_risk_tier_three_list_tools_that_move_funds() -> None:
    moving = {
        "buy_token", "sell_token", "swap_tokens", "transfer_token", "open_perps_position",
        "close_perps_position", "minara_perps_wallet_sweep",
    }  # fmt: skip
    listing = [skill for skill in builtin_skills() if moving & set(skill.tool_names)]
    assert listing
    assert all(skill.risk_tier >= RiskTier.MOVE for skill in listing)


def test_minara_core_is_the_specified_one() -> None:
    core = next(skill for skill in builtin_skills() if skill.skill_id == "minara.core")
    assert core.description == (
        "Unified Minara API — markets, portfolio, spot/perps trading, sub-account management"
    )
    assert core.priority == 50
    assert core.activation is Activation.AUTO
    assert core.tool_names == (
        "get_price", "get_trending", "get_fear_greed", "search_tokens", "minara_account",
        "lookup_token", "minara_total_balance", "get_portfolio", "get_perps_positions",
        "minara_pnl", "swap_tokens", "buy_token", "sell_token", "transfer_token",
        "open_perps_position", "close_perps_position", "minara_perps_wallets_list",
        "minara_perps_wallet_sweep",
    )  # fmt: skip
    assert core.routing.stages == {
        LifecycleStage.DISCOVER, LifecycleStage.DECIDE, LifecycleStage.MANAGE
    }  # fmt: skip
    assert core.routing.keywords == (
        "minara", "balance", "swap", "long", "short", "perp", "perps", "perps sub-account",
    )  # fmt: skip
    assert core.routing.asset_classes == {
        AssetClass.CRYPTO_MAJOR, AssetClass.CRYPTO_ALT, AssetClass.CRYPTO_MEME,
        AssetClass.STABLECOIN, AssetClass.PERPS,
    }  # fmt: skip
