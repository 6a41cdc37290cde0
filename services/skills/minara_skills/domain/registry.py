"""The installed skills, in one order, with the gates of registration applied."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from minara_skills.domain.skill import MAX_DESCRIPTION, MAX_PROMPT_TOKENS, Skill, estimated_tokens


class SkillInvalid(ValueError):
    """A skill that cannot be registered; the text names it and says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Registry:
    """`skills` by id, sorted; `missing` names the variables that a gated skill still wants."""

    skills: Mapping[str, Skill]
    missing: Mapping[str, tuple[str, ...]]

    def usable(self) -> tuple[Skill, ...]:
        """The skills that are not gated by a missing variable."""
        return tuple(skill for name, skill in self.skills.items() if name not in self.missing)


def register(skills: Iterable[Skill], *, variables: Collection[str] = ()) -> Registry:
    """A registry of `skills`; `variables` are those of the environment that are set.

    Raises SkillInvalid for a missing or long description, a long prompt, an id that is there
    twice, a co-activation that names nothing, or a keyword that two skills of equal priority share.
    """
    by_id: dict[str, Skill] = {}
    for skill in sorted(skills, key=lambda each: each.skill_id):
        _check_texts(skill)
        if skill.skill_id in by_id:
            raise SkillInvalid(f"{skill.skill_id}: is there twice")
        by_id[skill.skill_id] = skill
    _check_co_activations(by_id)
    _check_collisions(by_id.values())
    missing = {
        name: tuple(variable for variable in skill.requires_env if variable not in variables)
        for name, skill in by_id.items()
    }
    return Registry(
        skills=MappingProxyType(by_id),
        missing=MappingProxyType({name: wants for name, wants in missing.items() if wants}),
    )


def _check_texts(skill: Skill) -> None:
    if not skill.description.strip():
        raise SkillInvalid(f"{skill.skill_id}: has no description")
    if len(skill.description) > MAX_DESCRIPTION:
        raise SkillInvalid(f"{skill.skill_id}: description over {MAX_DESCRIPTION} characters")
    tokens = estimated_tokens(skill.prompt)
    if not 0 < tokens <= MAX_PROMPT_TOKENS:
        raise SkillInvalid(f"{skill.skill_id}: prompt of {tokens} tokens, not 1 to 800")


def _check_co_activations(skills: Mapping[str, Skill]) -> None:
    for skill in skills.values():
        unknown = [name for name in skill.routing.co_activates if name not in skills]
        if unknown:
            raise SkillInvalid(f"{skill.skill_id}: co-activates {unknown[0]}, which is not there")


def _check_collisions(skills: Iterable[Skill]) -> None:
    owners: dict[tuple[str, int], str] = {}
    for skill in skills:
        for keyword in (*skill.routing.keywords, *skill.routing.terms):
            other = owners.setdefault((keyword, skill.priority), skill.skill_id)
            if other != skill.skill_id:
                raise SkillInvalid(
                    f"{skill.skill_id}: shares keyword {keyword!r} and priority with {other}"
                )
