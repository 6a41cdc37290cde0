"""Addresses: formats with their checksums, and what only looks like a known one."""

import hashlib

import base58
import bech32
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from minara_tools.domain.address_formats import formats_of, is_address
from minara_tools.domain.lookalikes import known_entry, lookalike_of
from support.tools.funds import BITCOIN_ADDRESS, EVM_ADDRESS, an_entry

SOLANA = "9WzDXwBbmkg8ZTbNMqUxvQRAyrZzDsGYdLVL9zYtAWWM"
TRON = "TR7NHqjeKQxGTCi8q8ZY4pL8otSzgjLj6t"
TAPROOT = "bc1p0xlxvlhemja6c4dqv22uapctqupfhlxm9h8z3k2e72q4k9hcz7vqzk5jj0"
FORMATS = ("evm", "bitcoin", "solana", "tron")


@pytest.mark.parametrize(
    ("text", "format_name"),
    [
        (EVM_ADDRESS, "evm"),
        (EVM_ADDRESS.lower(), "evm"),
        ("0x" + EVM_ADDRESS[2:].upper(), "evm"),
        ("0x52908400098527886E0F7030069857D2E4169EE7", "evm"),
        ("0xdbF03B407c01E7cD3CBea99509d93f8DDDC8C6FB", "evm"),
        ("1BvBMSEYstWetqTFn5Au4m4GFg7xJaNVN2", "bitcoin"),
        ("3J98t1WpEZ73CNmQviecrnyiWrnqRhWNLy", "bitcoin"),
        (BITCOIN_ADDRESS, "bitcoin"),
        (BITCOIN_ADDRESS.upper(), "bitcoin"),
        (TAPROOT, "bitcoin"),
        (SOLANA, "solana"),
        (TRON, "tron"),
    ],
)
def test_an_address_belongs_to_one_format(text: str, format_name: str) -> None:
    assert formats_of(text) == (format_name,)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "0x",
        EVM_ADDRESS + "0",
        EVM_ADDRESS[2:],
        "0X" + EVM_ADDRESS[2:],
        EVM_ADDRESS.replace("aA", "aa"),
        EVM_ADDRESS.replace("d", "g"),
        EVM_ADDRESS + " ",
        " " + EVM_ADDRESS,
        "0x" + "５" * 40,
        "1BvBMSEYstWetqTFn5Au4m4GFg7xJaNVN3",
        BITCOIN_ADDRESS[:-1] + "p",
        "bc1Qar0srrr7xfkvy5l643lydnw9re59gtzzwf5mdq",
        "tb1qw508d6qejxtdg4y5r3zarvary0c5xw7kxpjzsx",
        "bc1pw5dgrnzv",
        "BC1SW50QA3JX3S",
        SOLANA[:-2],
        "0OIl" * 11,
        TRON[:-1] + "u",
        "n" * 500,
    ],
)
def test_what_is_misspelt_belongs_to_none(text: str) -> None:
    assert formats_of(text) == ()


def test_a_format_that_nobody_knows_has_no_addresses() -> None:
    assert not is_address("dogecoin", EVM_ADDRESS)


def test_later_witness_versions_take_the_other_checksum() -> None:
    """A taproot program under the checksum of version 0 is not an address (BIP 350)."""
    program = bech32.convertbits(list(range(32)), 8, 5)
    assert program is not None
    assert formats_of(bech32.bech32_encode("bc", [1, *program])) == ()
    assert formats_of(bech32.bech32_encode("bc", [0, *program])) == ("bitcoin",)


@given(st.binary(min_size=20, max_size=20), st.integers(min_value=0, max_value=255))
def test_the_version_byte_decides_between_bitcoin_and_tron(payload: bytes, version: int) -> None:
    text = base58.b58encode_check(bytes([version]) + payload).decode()
    known = {0x00: ("bitcoin",), 0x05: ("bitcoin",), 0x41: ("tron",)}
    assert formats_of(text) == known.get(version, ())


@given(st.text(max_size=100))
def test_no_text_breaks_the_check(text: str) -> None:
    assert len(formats_of(text)) <= 1


HEX = st.text(alphabet="0123456789abcdef", min_size=40, max_size=40)


@given(HEX, st.text(alphabet="0123456789abcdef", min_size=32, max_size=32))
def test_shared_ends_are_a_look_alike(known: str, middle: str) -> None:
    poisoned = f"0x{known[:4]}{middle}{known[-4:]}"
    assume(poisoned != f"0x{known}")
    assert lookalike_of(poisoned, [f"0x{known}"]) == f"0x{known}"
    assert lookalike_of(poisoned.upper().replace("0X", "0x"), [f"0x{known}"]) == f"0x{known}"


@given(
    HEX,
    st.lists(
        st.tuples(st.integers(0, 39), st.sampled_from("0123456789abcdef"), st.integers(0, 2)),
        min_size=1,
        max_size=2,
    ),
)
def test_two_edits_are_a_look_alike(known: str, edits: list[tuple[int, str, int]]) -> None:
    changed = known
    for place, character, kind in edits:
        keep = place + (1 if kind else 0)
        changed = changed[:place] + ("" if kind == 2 else character) + changed[keep:]
    assume(changed != known)
    assert lookalike_of(f"0x{changed}", [f"0x{known}"]) == f"0x{known}"


@given(HEX)
def test_an_unrelated_address_is_none(known: str) -> None:
    other = hashlib.sha256(known.encode()).hexdigest()[:40]
    assume((other[:4], other[-4:]) != (known[:4], known[-4:]))
    assert lookalike_of(f"0x{other}", [f"0x{known}"]) is None


def test_the_address_itself_is_no_look_alike_however_it_is_spelt() -> None:
    known = [EVM_ADDRESS, BITCOIN_ADDRESS, SOLANA]
    for text in (EVM_ADDRESS.lower(), BITCOIN_ADDRESS.upper(), SOLANA):
        assert lookalike_of(text, known) is None


def test_what_all_addresses_begin_with_says_nothing() -> None:
    one, other = "bc1q" + "a" * 34 + "qqqq", "bc1q" + "z" * 34 + "qqqq"
    assert lookalike_of(one, [other]) is None


def test_base58_tells_by_case() -> None:
    swapped = SOLANA.swapcase()
    assert lookalike_of(swapped, [SOLANA]) == SOLANA


def test_an_entry_is_known_by_chain_address_and_memo() -> None:
    entry = an_entry(memo="7")
    assert known_entry([entry], "ethereum", EVM_ADDRESS.lower(), "7") == entry
    assert known_entry([entry], "ethereum", EVM_ADDRESS, "8") is None
    assert known_entry([entry], "base", EVM_ADDRESS, "7") is None
