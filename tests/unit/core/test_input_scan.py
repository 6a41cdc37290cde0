import pytest
from hypothesis import given
from hypothesis import strategies as st

from minara_core.errors import InvalidRequest, TooLarge
from minara_core.input_scan import MAX_MESSAGE_BYTES, scan, would_change
from minara_core.reasons import ErrorReason

HEX = "4c0883a69102937d6231471b5dbb6204fe5129617082792ae468d01a3f362318"
SEED = "legal winner thank year wave sausage worth useful legal winner thank yellow"
PEM = "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBg\n-----END PRIVATE KEY-----"
JWT = "eyJhbGciOiJFZERTQSJ9.eyJzdWIiOiJsb2NhbCJ9.c2lnbmF0dXJlLW9mLXRoZS10b2tlbg"
AWS = "AKIA" + "ABCDEFGHIJKLMNOP"

_PIECES = st.sampled_from(
    [
        HEX,
        "0x" + HEX,
        SEED,
        PEM,
        JWT,
        AWS,
        "sk-" + "a1" * 12,
        "private key: ",
        "seed phrase: ",
        "助記詞：",
        "-----BEGIN RSA PRIVATE KEY-----",
        "[redacted: seed phrase]",
        "[redacted: API key]",
        "\r\n",
        "\r",
        "\x00",
        "\ud83d",
        "\ude00",
        "\x1b[31m",
        " ",
        "\n",
        "buy $50 of ETH",
        "abandon ",
        "mnemonic ",
        "1. ",
        ",",
    ]
)
_TEXTS = st.one_of(
    st.text(st.characters(codec=None), max_size=120),
    st.lists(st.one_of(_PIECES, st.text(max_size=12)), max_size=12).map("".join),
)


def _scanned(text: str) -> str | None:
    try:
        return scan(text).text
    except InvalidRequest:
        return None


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        ("buy $50 of ETH", "buy $50 of ETH"),
        ("line one\r\nline two\rline three", "line one\nline two\nline three"),
        ("a\x00b\x07c\x1b[31md\x85e", "abc[31mde"),
        ("tab\tand\nline", "tab\tand\nline"),
        ("\ud83d\ude00 hi", "😀 hi"),
        ("\ud83d hi \ude00", "\ufffd hi \ufffd"),
        ("\ud83d\x00\ude00", "😀"),
        ("買 50 美元的 ETH 👍🏽", "買 50 美元的 ETH 👍🏽"),
    ],
)
def test_control_characters_and_surrogates_are_repaired(text: str, cleaned: str) -> None:
    assert scan(text).text == cleaned
    assert scan(text).notices == ()
    assert would_change(text) == (text != cleaned)


@pytest.mark.parametrize("text", ["", " ", "\n\t", "\x00\x01", "\u200b\u2060", "\u3000"])
def test_nothing_left_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        scan(text)
    assert caught.value.reason is ErrorReason.MESSAGE_EMPTY


def test_the_limit_counts_bytes_after_cleaning() -> None:
    assert scan("a" * MAX_MESSAGE_BYTES).text == "a" * MAX_MESSAGE_BYTES
    assert scan("\x00" * 99 + "a" * MAX_MESSAGE_BYTES).text == "a" * MAX_MESSAGE_BYTES
    for text in ("a" * (MAX_MESSAGE_BYTES + 1), "買" * (MAX_MESSAGE_BYTES // 3 + 1)):
        with pytest.raises(TooLarge) as caught:
            scan(text)
        assert caught.value.reason is ErrorReason.MESSAGE_TOO_LARGE


@pytest.mark.parametrize(
    ("text", "redacted"),
    [
        (f"my private key is 0x{HEX}", "my private key is [redacted: private key]"),
        (f"0x{HEX}", "[redacted: private key]"),
        (f" {HEX}\n", " [redacted: private key]\n"),
        (f"私鑰：{HEX} 幫我看", "私鑰：[redacted: private key] 幫我看"),
        (f"개인키 {HEX}", "개인키 [redacted: private key]"),
        (f"here: {PEM} ok", "here: [redacted: private key] ok"),
        ("-----BEGIN EC PRIVATE KEY-----\nMHcCAQEE", "[redacted: private key]"),
        (SEED, "[redacted: seed phrase]"),
        (f"my seed phrase is: {SEED}", "my seed phrase is: [redacted: seed phrase]"),
        (f"mnemonic {SEED} please help", "mnemonic [redacted: seed phrase] please help"),
        (f"助記詞：{SEED}", "助記詞：[redacted: seed phrase]"),
        (f"시드 구문: {SEED}", "시드 구문: [redacted: seed phrase]"),
        ("seed: " + SEED.replace(" ", ", "), "seed: [redacted: seed phrase]"),
        (SEED.replace(" ", "\n"), "[redacted: seed phrase]"),
        (f"key {AWS}", "key [redacted: API key]"),
        ("use sk-ant-api03-" + "x" * 40, "use [redacted: API key]"),
        ("sk-proj-" + "Ab1_" * 10 + " is mine", "[redacted: API key] is mine"),
        ("ghp_" + "a" * 36, "[redacted: API key]"),
        ("xoxb-1234567890-abcdefghij", "[redacted: API key]"),
        ("AIza" + "b" * 35, "[redacted: API key]"),
        (f"Authorization: Bearer {JWT}", "Authorization: Bearer [redacted: API key]"),
    ],
)
def test_secrets_are_redacted_and_told(text: str, redacted: str) -> None:
    result = scan(text)
    assert result.text == redacted
    assert len(result.notices) == 1
    assert would_change(text)


@pytest.mark.parametrize(
    "text",
    [
        f"what happened in transaction 0x{HEX}",
        "is 0xdAC17F958D2ee523a2206206994597C13D831ec7 a scam",
        "can you tell what the current price for bitcoin would look like today",
        "please explain what seed phrases are and why someone should never share them with others",
        "what is a private key",
        "the seed round raised money from several well known funds last year already",
        "sk-short",
        "desk-abcdefghijklmnopqrstuvwxyz is a word",
        "buy 50 USDC of ETH and then sell half of my bitcoin please",
        "[redacted: private key] and [redacted: seed phrase]",
    ],
)
def test_what_only_resembles_a_secret_stays(text: str) -> None:
    assert scan(text).text == text
    assert not would_change(text)


def test_a_key_that_comes_near_its_label_by_a_redaction_goes_too() -> None:
    text = f"private key {JWT} {HEX}"
    assert scan(text).text == "private key [redacted: API key] [redacted: private key]"


def test_every_kind_is_told_once_in_the_language_of_the_message() -> None:
    english = scan(f"private key {HEX} and again private key {HEX} and {AWS}")
    assert len(english.notices) == 2
    assert "private key" in english.notices[0]
    assert "API key" in english.notices[1]
    assert "私鑰" in scan(f"這是我的私鑰 {HEX} 請幫我看餘額").notices[0]
    assert "개인 키" in scan(f"이것이 내 개인키 {HEX} 잔고를 봐줘").notices[0]


@given(_TEXTS)
def test_scanning_twice_changes_nothing(text: str) -> None:
    once = _scanned(text)
    if once is not None:
        assert scan(once).text == once
        assert scan(once).notices == ()
        assert not would_change(once)


@given(_TEXTS)
def test_what_is_scanned_can_be_sent_and_signed(text: str) -> None:
    once = _scanned(text)
    if once is not None:
        assert len(once.encode("utf-8")) <= MAX_MESSAGE_BYTES
        assert not any(ord(c) < 32 and c not in "\n\t" for c in once)


@given(
    st.text(st.sampled_from("abc xyz"), max_size=20),
    st.text(st.sampled_from("abc xyz"), max_size=20),
)
def test_no_private_key_survives_between_other_words(before: str, after: str) -> None:
    assert HEX not in scan(f"{before} private key: {HEX} {after}").text
