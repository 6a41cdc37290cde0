"""The catalog's bytes, and what comes of activate_skills."""

from dataclasses import replace

from minara_core.taxonomy import LifecycleStage, RiskTier
from minara_skills.adapters.skill_packages import builtin_skills
from minara_skills.app.activate_skills import SkillActivation
from minara_skills.app.select_skills import SkillSelection
from minara_skills.domain.activation import activate
from minara_skills.domain.catalog import catalog_of
from minara_skills.domain.registry import register
from support.skills_sessions import TOOLS, FakeSkillSessions, a_skill, a_skill_turn, routed_by

BUILTIN = register(builtin_skills())


def test_the_catalog_is_the_same_bytes_for_the_same_skills_in_any_order() -> None:
    skills = builtin_skills()
    assert catalog_of(register(skills)) == catalog_of(register(reversed(skills)))


def test_the_catalog_has_one_line_a_skill_sorted_by_id() -> None:
    lines = [line for line in catalog_of(BUILTIN).block.splitlines() if line.startswith("- ")]
    ids = [line.removeprefix("- ").partition(":")[0].partition(" ")[0] for line in lines]
    assert ids == sorted(BUILTIN.skills)
    assert any(line.startswith("- trade.spot [moves funds]: ") for line in lines)


def test_a_skill_without_its_variable_is_listed_with_what_it_lacks() -> None:
    skill = a_skill(requires_env=("SOME_KEY",))
    assert "[unavailable: needs SOME_KEY]" in catalog_of(register([skill])).block
    with_key = catalog_of(register([skill], variables={"SOME_KEY"}))
    assert "unavailable" not in with_key.block
    assert with_key.etag != catalog_of(register([skill])).etag


def test_the_etag_changes_with_a_prompt_the_block_does_not_show() -> None:
    skill = a_skill()
    changed = replace(skill, prompt="Do something else.")
    one, two = catalog_of(register([skill])), catalog_of(register([changed]))
    assert one.block == two.block
    assert one.etag != two.etag


def test_activation_brings_the_prompt_and_the_tools_that_exist() -> None:
    activated = activate(
        BUILTIN, ["core.portfolio"], tool_names=TOOLS, stage=LifecycleStage.EVALUATE
    )
    assert activated.skill_ids == ("core.portfolio",)
    assert activated.callable_tools == ("get_portfolio", "get_price")
    assert BUILTIN.skills["core.portfolio"].prompt in activated.note
    assert "get_portfolio" in activated.note
    assert not activated.refused


def test_activation_refuses_by_name_what_may_not_be() -> None:
    registry = register(
        [
            a_skill("moves", risk_tier=RiskTier.MOVE),
            a_skill("gated", requires_env=("SOME_KEY",)),
            a_skill("toolless", tool_names=("no_such_tool",)),
            a_skill("fine"),
        ]
    )
    activated = activate(
        registry,
        ["moves", "gated", "toolless", "unknown", "fine", "fine"],
        tool_names=TOOLS,
        stage=LifecycleStage.DISCOVER,
    )
    assert activated.skill_ids == ("fine",)
    assert set(activated.refused) == {"moves", "gated", "toolless", "unknown"}
    assert all(f"Not activated: {name}: " in activated.note for name in activated.refused)


def test_the_model_cannot_activate_trading_in_a_price_question() -> None:
    stages = {
        stage: activate(BUILTIN, ["trade.spot"], tool_names=TOOLS, stage=stage)
        for stage in LifecycleStage
    }
    assert [stage for stage, done in stages.items() if "buy_token" in done.callable_tools] == [
        LifecycleStage.DECIDE,
        LifecycleStage.MANAGE,
    ]


async def test_a_retry_routes_as_the_first_time() -> None:
    selecting = SkillSelection(BUILTIN, FakeSkillSessions())
    await selecting.select(a_skill_turn(), "buy $5 of ETH", tool_names=TOOLS, is_human=True)
    second = a_skill_turn("turn-2")
    first = await selecting.select(second, "do it", tool_names=TOOLS, is_human=True)
    again = await selecting.select(second, "do it", tool_names=TOOLS, is_human=True)
    assert first == again
    assert first.stage is LifecycleStage.DECIDE


async def test_validate_only_leaves_nothing_to_carry_on() -> None:
    selecting = SkillSelection(BUILTIN, FakeSkillSessions())
    await selecting.select(
        a_skill_turn(), "buy $5 of ETH", tool_names=TOOLS, is_human=True, validate_only=True
    )
    after = await selecting.select(a_skill_turn("turn-2"), "do it", tool_names=TOOLS, is_human=True)
    assert after.stage is LifecycleStage.EVALUATE


async def test_a_turn_that_tells_a_decision_does_not_break_the_thread() -> None:
    selecting = SkillSelection(BUILTIN, FakeSkillSessions())
    await selecting.select(a_skill_turn(), "buy $5 of ETH", tool_names=TOOLS, is_human=True)
    await selecting.select(a_skill_turn("turn-2"), "", tool_names=TOOLS, is_human=False)
    after = await selecting.select(
        a_skill_turn("turn-3"), "do it again", tool_names=TOOLS, is_human=True
    )
    assert after.assets == ("ETH",)
    assert "buy_token" in after.callable_tools


async def test_an_activated_skill_counts_as_active_in_the_turn_before() -> None:
    sessions = FakeSkillSessions()
    registry = register([a_skill("known", routing=routed_by("zzz"))])
    selecting = SkillSelection(registry, sessions)
    await selecting.select(a_skill_turn(), "hello", tool_names=TOOLS, is_human=True)
    await SkillActivation(registry, sessions).activate(
        a_skill_turn(), ["known"], tool_names=TOOLS, stage=LifecycleStage.EVALUATE
    )
    after = await selecting.select(a_skill_turn("turn-2"), "hello", tool_names=TOOLS, is_human=True)
    assert "previous" in after.scores[0].parts
