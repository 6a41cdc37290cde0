"""Refuse by default: every tier, origin, stage and trading state has one answer, written here."""

import itertools

import pytest

from minara_core.reasons import DenialReason
from minara_core.taxonomy import (
    LifecycleStage,
    Origin,
    PermissionTier,
    TradingState,
)
from minara_tools.domain.outcomes import ToolCallBlockedError
from minara_tools.domain.permission import (
    Verdict,
    allowed_tool_sets,
    decide,
    step_ceiling,
    turn_ceiling,
)

READ, ONCE, ALWAYS, MANUAL = PermissionTier
RUN, ASK = Verdict
CONFIRM = DenialReason.CONFIRMATION_REQUIRED
CEILING = DenialReason.TIER_EXCEEDS_CEILING
HAND = DenialReason.MANUAL_ONLY

HUMAN = (Origin.REPL, Origin.HTTP)
PROGRAMS = (Origin.OPENAI_COMPAT, Origin.AG_UI, Origin.MCP)
AUTOMATIC = (
    Origin.GOAL,
    Origin.CRON,
    Origin.EVENT,
    Origin.AUTOPILOT,
    Origin.WORKFLOW,
    Origin.AGENT,
)

# tier → (plain tool, money tool), in stage `decide`, with the grant's highest ceiling
TABLE = {
    HUMAN: {READ: (RUN, ASK), ONCE: (RUN, ASK), ALWAYS: (CONFIRM, ASK), MANUAL: (HAND, HAND)},
    PROGRAMS: {
        READ: (RUN, ASK),
        ONCE: (CONFIRM, ASK),
        ALWAYS: (CONFIRM, ASK),
        MANUAL: (HAND, HAND),
    },
    AUTOMATIC: {
        READ: (RUN, CONFIRM),
        ONCE: (CONFIRM, CONFIRM),
        ALWAYS: (CEILING, CEILING),
        MANUAL: (HAND, HAND),
    },
}
ROWS = [
    (origin, tier, is_money, answers[tier][is_money])
    for origins, answers in TABLE.items()
    for origin in origins
    for tier in PermissionTier
    for is_money in (False, True)
]


def answer(
    tier: PermissionTier,
    *,
    is_money: bool,
    origin: Origin,
    stage: LifecycleStage | None = LifecycleStage.DECIDE,
    grant: PermissionTier = ALWAYS,
    risk: PermissionTier | None = ALWAYS,
    state: TradingState = TradingState.ACTIVE,
    opted_in: bool = False,
) -> Verdict | DenialReason:
    turn = turn_ceiling(origin=origin, opted_in=opted_in, grant_ceiling=grant, trading_state=state)
    try:
        return decide(
            tier,
            is_fund_moving=is_money,
            origin=origin,
            opted_in=opted_in,
            stage=stage,
            ceiling=step_ceiling(turn, stage=stage, risk_ceiling=risk),
        )
    except ToolCallBlockedError as blocked:
        return blocked.reason


def test_the_table_speaks_of_every_origin_and_tier() -> None:
    assert {(row[0], row[1]) for row in ROWS} == set(itertools.product(Origin, PermissionTier))


@pytest.mark.parametrize(("origin", "tier", "is_money", "expected"), ROWS)
def test_each_tier_in_each_origin(
    origin: Origin, tier: PermissionTier, is_money: bool, expected: Verdict | DenialReason
) -> None:
    assert answer(tier, is_money=is_money, origin=origin) is expected


@pytest.mark.parametrize(
    ("tier", "origin", "stage", "state", "opted_in"),
    list(
        itertools.product(
            PermissionTier, Origin, [*LifecycleStage, None], TradingState, [False, True]
        )
    ),
)
def test_money_never_runs_unasked(
    tier: PermissionTier,
    origin: Origin,
    stage: LifecycleStage | None,
    state: TradingState,
    opted_in: bool,
) -> None:
    given = answer(tier, is_money=True, origin=origin, stage=stage, state=state, opted_in=opted_in)
    assert given is not RUN
    if stage not in {LifecycleStage.DECIDE, LifecycleStage.MANAGE}:
        assert given is not ASK


@pytest.mark.parametrize("stage", [LifecycleStage.DISCOVER, LifecycleStage.EVALUATE, None])
def test_a_move_outside_its_stages_is_denied_with_the_sentence_that_works(
    stage: LifecycleStage | None,
) -> None:
    with pytest.raises(ToolCallBlockedError) as caught:
        decide(
            ONCE,
            is_fund_moving=True,
            origin=Origin.REPL,
            opted_in=False,
            stage=stage,
            ceiling=ALWAYS,
            say="buy 50 USDC of ETH",
        )
    assert caught.value.reason is CEILING
    assert caught.value.metadata["say"] == "buy 50 USDC of ETH"
    assert "say: buy 50 USDC of ETH" in caught.value.message


@pytest.mark.parametrize("origin", Origin)
@pytest.mark.parametrize("ceiling", [READ, ONCE])
def test_grant_and_skills_can_only_lower(origin: Origin, ceiling: PermissionTier) -> None:
    lowered = (
        answer(ALWAYS, is_money=True, origin=origin, grant=ceiling),
        answer(ALWAYS, is_money=True, origin=origin, risk=ceiling),
    )
    assert lowered == (CEILING, CEILING)
    assert answer(ONCE, is_money=False, origin=Origin.REPL, grant=READ) is CEILING


def test_opting_in_lets_workflows_and_agents_park_moves_and_nobody_else() -> None:
    for origin in AUTOMATIC:
        given = answer(ALWAYS, is_money=True, origin=origin, opted_in=True)
        expected = ASK if origin in {Origin.WORKFLOW, Origin.AGENT} else CEILING
        assert given is expected, origin


def test_tool_sets_are_what_grant_context_and_origin_allow_together() -> None:
    def sets(origin: Origin, *, opted_in: bool = False, is_decision: bool = False) -> set[str]:
        return set(
            allowed_tool_sets(
                origin=origin,
                opted_in=opted_in,
                granted=("read", "trade", "web", "analysis", "memory"),
                asked=("read", "trade", "web", "analysis", "file"),
                is_decision=is_decision,
            )
        )

    assert sets(Origin.HTTP) == {"read", "trade", "web", "analysis"}
    assert sets(Origin.HTTP, is_decision=True) == {"read", "trade"}
    assert sets(Origin.CRON) == {"read", "web"}
    assert sets(Origin.AGENT) == {"read", "web"}
    assert sets(Origin.AGENT, opted_in=True) == {"read", "trade", "web", "analysis"}
    assert sets(Origin.CRON, opted_in=True) == {"read", "web"}
