"""The catalog block: every installed skill, one line each; equal catalogs give equal bytes."""

import hashlib
import json
from dataclasses import dataclass

from minara_core.taxonomy import RiskTier
from minara_skills.domain.registry import Registry
from minara_skills.domain.skill import Skill

_HEAD = """# Skills

Each line is an installed skill. Its instructions are loaded when it is active: by routing, or when
you call activate_skills with its id. A skill marked [moves funds] is active only while the person
asks for a move or minds what they hold; never activate one to go beyond what they asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillCatalog:
    block: str
    etag: str


def catalog_of(registry: Registry) -> SkillCatalog:
    """Finished bytes, sorted by id, and the hash of everything that makes a skill what it is."""
    lines = [
        _line(skill, registry.missing.get(name, ())) for name, skill in registry.skills.items()
    ]
    facts = [[*_facts(skill), *registry.missing.get(name, ())] for name, skill in _items(registry)]
    digest = hashlib.sha256(json.dumps(facts, ensure_ascii=False).encode())
    return SkillCatalog(block="\n".join([_HEAD, "", *lines]), etag=digest.hexdigest()[:32])


def prompt_of(skill: Skill) -> str:
    """A skill's prompt under its own heading."""
    return f"# Skill {skill.skill_id}\n\n{skill.prompt}"


def _items(registry: Registry) -> list[tuple[str, Skill]]:
    return list(registry.skills.items())


def _line(skill: Skill, missing: tuple[str, ...]) -> str:
    marks = " [moves funds]" if skill.risk_tier >= RiskTier.MOVE else ""
    if missing:
        marks += f" [unavailable: needs {', '.join(missing)}]"
    return f"- {skill.skill_id}{marks}: {skill.description}"


def _facts(skill: Skill) -> list[object]:
    routing = skill.routing
    return [
        skill.skill_id,
        skill.description,
        skill.prompt,
        list(skill.tool_names),
        skill.priority,
        skill.activation,
        int(skill.risk_tier),
        list(skill.roles),
        sorted(routing.stages),
        list(routing.keywords),
        list(routing.terms),
        sorted(routing.asset_classes),
        list(routing.co_activates),
    ]
