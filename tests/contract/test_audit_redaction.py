"""What never reaches the disk, and what has to."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minara_runtime.redaction import REDACTED, redact

HEX_64 = "ab" * 32
JWT = "eyJhbGciOiJFZERTQSJ9.eyJzdWIiOiJsb2NhbCJ9.c2lnbmF0dXJlLWhlcmU"


@pytest.mark.parametrize(
    "name",
    [
        "api_key", "apiKey", "API-KEY", "venue_api_key", "secret", "client_secret", "password",
        "passphrase", "private_key", "walletPrivateKey", "mnemonic", "access_token",
        "Authorization", "seed_phrase",
    ],
)  # fmt: skip
def test_values_under_telling_names_are_taken_out(name: str) -> None:
    assert redact(json.dumps({"a": [{name: "x"}]})) == f'{{"a":[{{"{name}":"{REDACTED}"}}]}}'


@pytest.mark.parametrize(
    "secret",
    [
        "sk-abcdefghijklmnop1234",
        "ghp_abcdefghijklmnopqrstuvwx",
        "AKIAABCDEFGHIJKLMNOP",
        "xoxb-1234567890-abc",
        "Bearer abcdefghijklmnop.qrst",
        JWT,
        HEX_64,
        "0x" + HEX_64,
        "-----BEGIN EC PRIVATE KEY-----\nMHc\n-----END EC PRIVATE KEY-----",
    ],
)
def test_shapes_of_known_keys_are_taken_out_of_text(secret: str) -> None:
    clean = redact(json.dumps({"note": f"use {secret} please"}))
    assert json.loads(clean) == {"note": f"use {REDACTED} please"}
    assert secret not in redact(f"no json: {secret}")


@pytest.mark.parametrize(
    "text",
    [
        '{"token":"ETH","amount":"50"}',
        '{"token": "0x6B175474E89094C44Da98b954EedeAC495271d0F"}',
        '{"token":"EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v"}',
        f'{{"tx_hash":"0x{HEX_64}","action_hash":"{HEX_64}","operation_id":"{HEX_64}"}}',
        '{"max_tokens":8192,"tokens":["BTC"],"secretary":"Ann","password":""}',
        '{ "spaces" : [ 1.10, 1e3, 12345678901234567890, true, null ] }',
        "not json",
        "",
    ],
)
def test_what_is_no_secret_stays_byte_for_byte(text: str) -> None:
    assert redact(text) == text


def test_a_whole_object_under_a_telling_name_is_taken_out() -> None:
    assert redact('{"secret":{"a":"b"},"token":{"symbol":"ETH"}}') == (
        f'{{"secret":"{REDACTED}","token":{{"symbol":"ETH"}}}}'
    )


def test_a_name_that_comes_twice_hides_nothing() -> None:
    clean = redact('{"note":"sk-abcdefghijklmnop1234","note":"ok"}')
    assert clean == f'{{"note":"{REDACTED}","note":"ok"}}'


def test_what_is_nested_too_deep_is_taken_out_as_a_whole() -> None:
    assert redact("[" * 100_000 + '{"secret":"x"}' + "]" * 100_000) == f'"{REDACTED}"'


def test_a_long_text_under_token_is_a_secret() -> None:
    assert redact('{"token":"tok_live_abcdefghijklmnop"}') == f'{{"token":"{REDACTED}"}}'


def test_numbers_beside_a_secret_keep_every_digit() -> None:
    text = '{"secret":"x","a":12345678901234567890,"b":1.10,"c":"é"}'
    assert redact(text) == f'{{"secret":"{REDACTED}","a":12345678901234567890,"b":1.10,"c":"é"}}'


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner),
    max_leaves=12,
)


@given(_JSON)
def test_redacting_again_changes_nothing(value: object) -> None:
    once = redact(json.dumps({"secret": "x", "rest": value}))
    assert json.loads(once)["secret"] == REDACTED
    assert redact(once) == once
