"""L0: which skills a message makes active. Pure: equal input, equal output, on every replica."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from minara_core.lexicon_tables import is_cjk
from minara_core.taxonomy import STAGE_CEILING, LifecycleStage, PermissionTier
from minara_skills.domain.reading import Reading, read
from minara_skills.domain.registry import Registry
from minara_skills.domain.risk_gate import gate_reason, is_gated
from minara_skills.domain.session import SkillSession
from minara_skills.domain.skill import Activation, Skill

MOST_ACTIVE = 6
"""Routed skills of one turn; those that are always active come on top."""

_KEYWORD, _STAGE, _ASSET, _CO_ACTIVATED, _PREVIOUS = 300, 200, 200, 100, 100
_MOST_KEYWORDS = 3
_THRESHOLD = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """How one skill scored, in hundredths. `has_cause`: a keyword, a co-activation or the turn
    before speaks for it; stage and asset class alone would activate almost every skill."""

    skill: Skill
    hundredths: int
    parts: tuple[str, ...]
    has_cause: bool
    is_active: bool = False
    reason: str = ""

    @property
    def rank(self) -> tuple[int, int, str]:
        return (-self.hundredths, -self.skill.priority, self.skill.skill_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """`active` best first; `scores` of all skills, best first; `callable_tools` sorted."""

    stage: LifecycleStage
    is_stage_sure: bool
    assets: tuple[str, ...]
    active: tuple[Score, ...]
    scores: tuple[Score, ...]
    callable_tools: tuple[str, ...]
    risk_ceiling: PermissionTier

    @property
    def session(self) -> SkillSession:
        """What the next turn of the session reads."""
        return SkillSession(
            stage=self.stage,
            assets=self.assets,
            skill_ids=tuple(score.skill.skill_id for score in self.active),
        )


def route(
    registry: Registry,
    message: str,
    *,
    tool_names: Collection[str],
    previous: SkillSession | None = None,
    is_human: bool = True,
) -> Selection:
    """Score every skill and choose. `tool_names` are the tools that exist."""
    reading = read(message, previous, is_human=is_human)
    tools = frozenset(tool_names)
    barred = _barred(registry, reading, tools)
    first = {name: _score(skill, reading) for name, skill in registry.skills.items()}
    named = {
        other: name
        for name in sorted(_chosen(first, barred), reverse=True)
        for other in registry.skills[name].routing.co_activates
    }
    second = {
        name: _co_activated(score, named[name]) if name in named else score
        for name, score in first.items()
    }
    chosen = _chosen(second, barred)
    scores = tuple(
        sorted(
            (
                replace(score, is_active=name in chosen, reason=_reason(score, barred, chosen))
                for name, score in second.items()
            ),
            key=lambda score: score.rank,
        )
    )
    active = tuple(score for score in scores if score.is_active)
    return Selection(
        stage=reading.stage,
        is_stage_sure=reading.is_stage_sure,
        assets=reading.assets,
        active=active,
        scores=scores,
        callable_tools=callable_tools([score.skill for score in active], tools),
        risk_ceiling=STAGE_CEILING[reading.stage],
    )


def callable_tools(skills: Collection[Skill], tools: Collection[str]) -> tuple[str, ...]:
    """The tools of `skills` that exist, sorted."""
    return tuple(sorted({name for skill in skills for name in skill.tool_names if name in tools}))


def why_unavailable(registry: Registry, skill: Skill, tools: Collection[str]) -> str:
    """Why a skill cannot be active in any turn of this installation; empty when it can."""
    missing = registry.missing.get(skill.skill_id)
    if missing:
        return f"needs {', '.join(missing)}"
    if skill.tool_names and not any(name in tools for name in skill.tool_names):
        return "none of its tools exists here"
    return ""


def _barred(registry: Registry, reading: Reading, tools: frozenset[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, skill in registry.skills.items():
        reason = why_unavailable(registry, skill, tools)
        if not reason and is_gated(skill, reading.stage):
            reason = gate_reason(reading.stage)
        if not reason and skill.activation is Activation.MANUAL:
            reason = "activated by name only"
        if reason:
            found[name] = reason
    return found


def keyword_hits(skill: Skill, reading: Reading) -> tuple[str, ...]:
    """The skill's distinct keywords and terms that the message holds, in the skill's order."""
    routing, folded = skill.routing, reading.folded
    words = [word for word in routing.keywords if word in folded and _stands(word, folded)]
    return (*words, *(term for term in routing.terms if term in reading.terms))


def _stands(word: str, folded: str) -> bool:
    """Whether a found keyword stands on word borders somewhere; Chinese and Korean need none."""
    if is_cjk(word):
        return True
    start = folded.find(word)
    while start >= 0:
        end = start + len(word)
        if not _is_word(folded[start - 1 : start]) and not _is_word(folded[end : end + 1]):
            return True
        start = folded.find(word, start + 1)
    return False


def _is_word(character: str) -> bool:
    return character.isascii() and (character.isalnum() or character == "_")


def _score(skill: Skill, reading: Reading) -> Score:
    routing = skill.routing
    hits = keyword_hits(skill, reading)[:_MOST_KEYWORDS]
    parts = [f"keyword:{word}" for word in hits]
    total = _KEYWORD * len(hits) + skill.priority
    if reading.stage in routing.stages:
        total += _STAGE
        parts.append(f"stage:{reading.stage}")
    matched = sorted(reading.asset_classes & routing.asset_classes)
    if matched:
        total += _ASSET
        parts.append(f"asset:{matched[0]}")
    was_active = reading.previous is not None and skill.skill_id in reading.previous.skill_ids
    if was_active:
        total += _PREVIOUS
        parts.append("previous")
    carried = was_active and reading.is_continuation
    if carried:
        # "Do it" has no words to score: it means the skills of the turn before.
        total = max(total, _THRESHOLD)
        parts.append("carried on")
    parts.append(f"priority:{skill.priority}")
    return Score(
        skill=skill,
        hundredths=total,
        parts=tuple(parts),
        has_cause=bool(hits) or carried,
    )


def _co_activated(score: Score, by: str) -> Score:
    return replace(
        score,
        hundredths=score.hundredths + _CO_ACTIVATED,
        parts=(*score.parts, f"with:{by}"),
        has_cause=True,
    )


def _chosen(scores: Mapping[str, Score], barred: Mapping[str, str]) -> frozenset[str]:
    able = [score for name, score in scores.items() if name not in barred]
    always = [score for score in able if score.skill.activation is Activation.ALWAYS]
    routed = sorted(
        (
            score
            for score in able
            if score.skill.activation is Activation.AUTO
            and score.has_cause
            and score.hundredths >= _THRESHOLD
        ),
        key=lambda score: score.rank,
    )
    return frozenset(score.skill.skill_id for score in (*always, *routed[:MOST_ACTIVE]))


def _reason(score: Score, barred: Mapping[str, str], chosen: frozenset[str]) -> str:
    skill = score.skill
    if skill.skill_id in barred:
        return barred[skill.skill_id]
    if skill.activation is Activation.ALWAYS:
        return "always active"
    if skill.skill_id in chosen:
        return ", ".join(score.parts[:-1])
    if not score.has_cause:
        return "no keyword"
    if score.hundredths < _THRESHOLD:
        return "score below 3"
    return f"not among the best {MOST_ACTIVE}"
