"""What comes of a model's wish to make skills active within a turn."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from minara_core.taxonomy import LifecycleStage
from minara_skills.domain.catalog import prompt_of
from minara_skills.domain.registry import Registry
from minara_skills.domain.risk_gate import gate_reason, is_gated
from minara_skills.domain.router import callable_tools, why_unavailable


@dataclass(frozen=True, slots=True, kw_only=True)
class Activated:
    """`note` is the tool result's text; `refused` maps an id to its reason."""

    note: str
    skill_ids: tuple[str, ...]
    callable_tools: tuple[str, ...]
    refused: Mapping[str, str]


def activate(
    registry: Registry,
    skill_ids: Sequence[str],
    *,
    tool_names: Collection[str],
    stage: LifecycleStage,
) -> Activated:
    """Activate what may be; refuse the rest by name. The risk gate applies as in routing."""
    refused: dict[str, str] = {}
    taken: list[str] = []
    for name in dict.fromkeys(skill_ids):
        reason = _refusal(registry, name, frozenset(tool_names), stage)
        if reason:
            refused[name] = reason
        else:
            taken.append(name)
    skills = [registry.skills[name] for name in taken]
    tools = callable_tools(skills, tool_names)
    parts = [prompt_of(skill) for skill in skills]
    if skills:
        parts.append(f"Callable from now on: {', '.join(tools) or 'no further tools'}.")
    parts += [f"Not activated: {name}: {reason}." for name, reason in refused.items()]
    return Activated(
        note="\n\n".join(parts), skill_ids=tuple(taken), callable_tools=tools, refused=refused
    )


def _refusal(registry: Registry, name: str, tools: frozenset[str], stage: LifecycleStage) -> str:
    skill = registry.skills.get(name)
    if skill is None:
        return "no such skill"
    reason = why_unavailable(registry, skill, tools)
    if not reason and is_gated(skill, stage):
        reason = gate_reason(stage)
    return reason
