"""GatewayStore on both databases."""

import pytest

from minara_core.clock import SystemClock
from minara_core.errors import Conflict
from minara_core.ids import UserId
from minara_core.reasons import ErrorReason
from minara_core.taxonomy import Scope
from minara_gateway.store import VERSIONS, Caller, GatewayStore
from support.actions import an_action
from support.databases import Databases

ME = Caller(user_id=UserId("local"), scopes=frozenset({Scope.READ}), is_interactive=False)


@pytest.fixture
async def store(databases: Databases) -> GatewayStore:
    return GatewayStore(await databases.open(VERSIONS), SystemClock())


async def test_a_token_is_known_and_never_stored_as_it_is(store: GatewayStore) -> None:
    await store.add_token("secret", ME, name="test")
    await store.add_token("secret", ME, name="test")
    assert await store.find_caller("secret") == ME
    assert await store.find_caller("secrets") is None


async def test_only_what_was_shown_to_this_person_counts_as_shown(store: GatewayStore) -> None:
    action = an_action()
    await store.record_shown(action, is_last_word=False)
    await store.record_shown(action, is_last_word=False)
    assert await store.was_shown(ME.user_id, action.pending_action_id, action.action_hash)
    assert not await store.was_shown(ME.user_id, action.pending_action_id, "cd" * 32)
    assert not await store.was_shown(
        UserId("somebody"), action.pending_action_id, action.action_hash
    )


async def test_an_idempotency_key_belongs_to_one_body(store: GatewayStore) -> None:
    await store.claim_key(ME.user_id, "key", "body-1")
    await store.claim_key(ME.user_id, "key", "body-1")
    await store.claim_key(UserId("somebody"), "key", "body-2")
    with pytest.raises(Conflict) as refusal:
        await store.claim_key(ME.user_id, "key", "body-2")
    assert refusal.value.reason is ErrorReason.IDEMPOTENCY_KEY_REUSED


async def test_the_last_word_is_what_a_turn_ended_with_until_more_is_said(
    store: GatewayStore,
) -> None:
    action = an_action()
    assert not await store.is_last_word(action)
    await store.record_shown(action, is_last_word=False)
    assert not await store.is_last_word(action)
    await store.record_shown(action, is_last_word=True)
    assert await store.is_last_word(action)
    await store.record_shown(action, is_last_word=False)
    assert await store.is_last_word(action)
    await store.take_back_last_word(action)
    assert not await store.is_last_word(action)
