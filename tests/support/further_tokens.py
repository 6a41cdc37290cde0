"""Another token of somebody who is there already."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from minara_core.taxonomy import Scope
from support.installations import new_person
from support.minara import Minara


@asynccontextmanager
async def holding_only(minara: Minara, *scopes: Scope) -> AsyncGenerator[Minara]:
    """The same person in the same conversation, with a token of these scopes alone."""
    same = await new_person(minara.installation, user_id=minara.user_id, scopes=scopes)
    same.session_id = minara.session_id
    try:
        yield same
    finally:
        await same.aclose()
