"""A message as the router reads it: stage, assets, and what in it can match a skill."""

from dataclasses import dataclass

from minara_core.asks import asks
from minara_core.lexicon import parse
from minara_core.lexicon_tables import asset_table
from minara_core.lexicon_terms import Direction, Parsed
from minara_core.taxonomy import AssetClass, LifecycleStage
from minara_skills.domain.session import SkillSession

_PERPETUAL_MOVES = frozenset({Direction.LONG, Direction.SHORT})


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """`terms` are the lexicon's findings ("move:buy", "topic:price"). `is_continuation`: stage,
    assets and skills come from `previous`."""

    folded: str
    stage: LifecycleStage
    is_stage_sure: bool
    assets: tuple[str, ...]
    asset_classes: frozenset[AssetClass]
    terms: frozenset[str]
    is_continuation: bool
    previous: SkillSession | None


def read(message: str, previous: SkillSession | None, *, is_human: bool) -> Reading:
    """Read one message. Only a person's own message decides or carries on a decision."""
    parsed = parse(message)
    ask = asks(parsed)
    goes_on = is_human and ask.is_continuation and previous is not None
    stage, is_sure = ask.stage, ask.is_sure
    if goes_on:
        stage, is_sure = LifecycleStage.DECIDE, True
    elif stage is LifecycleStage.DECIDE and not is_human:
        stage, is_sure = LifecycleStage.EVALUATE, False
    assets = parsed.symbols
    if goes_on and previous is not None and not assets:
        assets = previous.assets
    return Reading(
        folded=parsed.folded,
        stage=stage,
        is_stage_sure=is_sure,
        assets=assets,
        asset_classes=_classes(parsed, assets),
        terms=_terms(parsed),
        is_continuation=goes_on,
        previous=previous,
    )


def _classes(parsed: Parsed, assets: tuple[str, ...]) -> frozenset[AssetClass]:
    found = {mention.asset_class for mention in parsed.assets}
    if not found:
        known = asset_table().classes
        found = {known.get(symbol, AssetClass.CRYPTO_ALT) for symbol in assets}
    if parsed.leverage is not None or _PERPETUAL_MOVES.intersection(parsed.directions):
        found.add(AssetClass.PERPS)
    return frozenset(found)


def _terms(parsed: Parsed) -> frozenset[str]:
    moves = {f"move:{direction}" for direction in parsed.directions}
    return frozenset(moves | {f"topic:{topic}" for topic in parsed.topics})
