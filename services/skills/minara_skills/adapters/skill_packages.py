"""Reads SKILL.md packages: YAML frontmatter, then the prompt."""

from collections.abc import Iterable
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Annotated, Any

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from minara_core.lexicon import fold
from minara_core.lexicon_terms import Direction
from minara_core.taxonomy import AssetClass, LifecycleStage, RiskTier
from minara_skills.domain.registry import SkillInvalid
from minara_skills.domain.skill import Activation, Routing, Skill

_FILE = "SKILL.md"
_FENCE = "---\n"
_MOVES = "|".join(Direction)

_Id = Annotated[str, Field(pattern=r"^[a-z0-9]+(?:[.-][a-z0-9]+)*$", max_length=64)]
_Tool = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{1,63}$")]
_Variable = Annotated[str, Field(pattern=r"^[A-Z][A-Z0-9_]*$")]
_Keyword = Annotated[str, Field(min_length=1, max_length=64)]
_Term = Annotated[str, Field(pattern=rf"^(?:move:(?:{_MOVES})|topic:[a-z_]+)$")]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class _Routing(_Part):
    lifecycle_stages: tuple[LifecycleStage, ...] = ()
    keywords: tuple[_Keyword, ...] = ()
    terms: tuple[_Term, ...] = ()
    asset_classes: tuple[AssetClass, ...] = ()
    co_activates: tuple[_Id, ...] = ()


class _Minara(_Part):
    id: _Id
    priority: Annotated[int, Field(ge=0, le=99)] = 50
    activation: Activation = Activation.AUTO
    tool_names: tuple[_Tool, ...] = ()
    requires_env: tuple[_Variable, ...] = ()
    roles: tuple[str, ...] = ()
    routing: _Routing = _Routing()
    risk_tier: RiskTier = RiskTier.READ


class _Metadata(_Part):
    minara: _Minara


class _Frontmatter(_Part):
    name: Annotated[str, Field(min_length=1, max_length=64)]
    description: str = ""
    metadata: _Metadata


def builtin_skills() -> tuple[Skill, ...]:
    """The skills that ship with Minara. Raises SkillInvalid."""
    return read_packages(files("minara_skills").joinpath("builtin").iterdir())


def read_packages(folders: Iterable[Traversable]) -> tuple[Skill, ...]:
    """One skill per folder that holds a SKILL.md, sorted by id; nothing deeper is looked at."""
    found = [
        parse_skill(page.read_text(encoding="utf-8"), folder.name)
        for folder in folders
        if folder.is_dir() and (page := folder.joinpath(_FILE)).is_file()
    ]
    return tuple(sorted(found, key=lambda skill: skill.skill_id))


def parse_skill(text: str, folder: str) -> Skill:
    """The skill of one SKILL.md in a folder of the skill's id. Raises SkillInvalid."""
    head, body = _split(text, folder)
    try:
        page = _Frontmatter.model_validate(yaml.safe_load(head))
    except yaml.YAMLError as error:
        raise SkillInvalid(f"{folder}: its frontmatter is no YAML: {error}") from error
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        raise SkillInvalid(f"{folder}: {place}: {first['msg']}") from error
    if page.metadata.minara.id != folder:
        raise SkillInvalid(f"{folder}: its id is {page.metadata.minara.id}, not its folder's name")
    return _skill(page, body)


def _split(text: str, folder: str) -> tuple[str, str]:
    head, fence, body = text.removeprefix(_FENCE).partition(f"\n{_FENCE}")
    if not text.startswith(_FENCE) or not fence:
        raise SkillInvalid(f"{folder}: begins with no frontmatter")
    return head, body.strip()


def _skill(page: _Frontmatter, body: str) -> Skill:
    own = page.metadata.minara
    routing = own.routing
    return Skill(
        skill_id=own.id,
        description=" ".join(page.description.split()),
        prompt=body,
        tool_names=_distinct(own.tool_names),
        priority=own.priority,
        activation=own.activation,
        risk_tier=own.risk_tier,
        requires_env=_distinct(own.requires_env),
        roles=own.roles,
        routing=Routing(
            stages=frozenset(routing.lifecycle_stages),
            keywords=_distinct(fold(word) for word in routing.keywords),
            terms=_distinct(routing.terms),
            asset_classes=frozenset(routing.asset_classes),
            co_activates=_distinct(routing.co_activates),
        ),
    )


def _distinct(words: Iterable[Any]) -> tuple[Any, ...]:
    return tuple(dict.fromkeys(words))
