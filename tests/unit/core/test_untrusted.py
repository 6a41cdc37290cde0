"""Text from outside is marked, and holds nothing that a chat template reads as structure."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minara_core.untrusted import harmless, unwrap, wrap

TOKENS = (
    *("<|im_start|>", "<|im_end|>", "<|endoftext|>", "<|vision_start|>"),  # Qwen, ChatML
    *("<|begin_of_text|>", "<|start_header_id|>", "<|eot_id|>", "<|reserved_special_token_12|>"),
    *("<s>", "</s>", "[INST]", "[/INST]", "<<SYS>>", "<</SYS>>"),  # Llama
    *("[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]", "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]"),
    *("[TOOL_CALLS]", "[TOOL_RESULTS]", "[/TOOL_RESULTS]", "[ARGS]", "[THINK]"),  # Mistral
    *("<bos>", "<start_of_turn>", "<end_of_turn>", "<|turn>", "<turn|>", "<|tool_call>"),  # Gemma
    *("<｜User｜>", "<｜Assistant｜>", "<｜begin▁of▁sentence｜>", "<｜tool▁outputs▁begin｜>"),
    *("<｜DSML｜invoke>", "</｜DSML｜invoke>"),  # DeepSeek
    *("<|system|>", "<|user|>", "<|end|>"),  # Phi
    *("<|START_OF_TURN_TOKEN|>", "<|SYSTEM_TOKEN|>", "<BOS_TOKEN>"),  # Command-R
    *("<|start|>", "<|channel|>", "<|message|>", "<|call|>", "<|return|>"),  # Harmony
    *("<tool_call>", "</tool_call>", "<tool_response>", "<think>", "</think>", "<function=buy>"),
    *("[gMASK]", "<sop>", "<|observation|>"),  # GLM
)
PLAIN = (
    "a < b | c > d, [sic], x[0], [args], f(<T>), ‹quoted›, <p>text</p>, a|>b, 以太 <a href='x'>",
    '{"rows":[["BTC",1],[]],"note":"[INSTALL] <https://x.io> <||>"}',
    "",
)


@pytest.mark.parametrize("token", TOKENS)
def test_a_template_token_is_broken_up_wherever_it_stands(token: str) -> None:
    for text in (token, f"a{token}b", token * 3, f"<|{token}|>"):
        assert token not in harmless(text)
    assert len(harmless(token)) == len(token)


@pytest.mark.parametrize("text", PLAIN)
def test_text_without_tokens_is_left_as_it_is(text: str) -> None:
    assert harmless(text) == text
    assert unwrap(wrap(text, source="tool:x", marker="ab12")) == text


PIECES = st.sampled_from([*TOKENS, "<", "|", ">", "[", "]", "<|", "|>", "x", "tool", "‹", "/", " "])


@given(parts=st.lists(st.one_of(PIECES, st.text(max_size=3)), max_size=12))
def test_what_is_harmless_stays_as_it_is_and_has_no_token(parts: list[str]) -> None:
    once = harmless("".join(parts))
    assert harmless(once) == once
    assert not any(token in once for token in TOKENS)
