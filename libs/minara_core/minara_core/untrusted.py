"""Mark text from outside before a model reads it (turn.md §3).

The marker's id is unknown to whoever wrote the text, so the text cannot close it; chat-template
tokens inside are broken up, so that no server reads them as structure.
"""

import hashlib
import re
from types import MappingProxyType

# What each family's chat template reads as structure, as its published tokenizer_config.json and
# chat_template.jinja (mistral-common for Mistral, the harmony format's guide for gpt-oss) list it.
_TEMPLATE_TOKENS = MappingProxyType(
    {
        # ChatML and Qwen, Llama 3 and 4, Phi, Command-R, Harmony, GLM, Kimi, Granite: `<|name|>`.
        "bars": r"<\|(?=[^\s|<>‹]{1,48}\|>)",
        # DeepSeek: `<｜User｜>`, `<｜begin▁of▁sentence｜>`, `</｜DSML｜invoke>`.
        "wide bars": r"<(?=/?｜)",
        # Llama 2: `[INST]`, `<<SYS>>`, `<s>`.
        "llama 2": r"(?i:\[(?=/?INST\])|<(?=</?SYS>>)|<(?=/?(?:s|unk|pad)>))",
        # Mistral, as of its tokenizers v1 to v13; small letters are a person's brackets.
        "mistral": (
            r"\[(?=/?(?:SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_CALLS|TOOL_RESULTS|TOOL_CONTENT|ARGS"
            r"|CALL_ID|THINK|MODEL_SETTINGS|IMG|IMG_BREAK|IMG_END|PREFIX|MIDDLE|SUFFIX|AUDIO"
            r"|BEGIN_AUDIO|TRANSCRIBE)\])"
        ),
        # Gemma: `<start_of_turn>`, and of its later ones `<|turn>` and `<turn|>`.
        "gemma": (
            r"(?i:<(?=(?:bos|eos|(?:start|end)_of_(?:turn|image)"
            r"|(?:start|end)_function_(?:call|response|declaration))>)"
            r"|<(?=\|(?:turn|channel|think|tool|tool_call|tool_response|image|audio|video)>)"
            r"|<(?=(?:turn|channel|think|tool|tool_call|tool_response|image|audio|video)\|>))"
        ),
        # Hermes, Qwen, GLM and whoever reasons between tags.
        "tags": (
            r"(?i:<(?=/?(?:tool_call|tool_calls|tool_response|tools|think|arg_key|arg_value)>)"
            r"|<(?=/?function=|/function>|/?parameter=))"
        ),
        # Command-R: `<BOS_TOKEN>`; its turns stand between bars.
        "command-r": r"<(?=(?:BOS|EOS|PAD|UNK|CLS|SEP|MASK|EOP)_TOKEN>)",
        # GLM: `[gMASK]<sop>`.
        "glm": r"\[(?=[gs]?MASK\])|<(?=[se]op>)",
    }
)
_TOKENS = re.compile("|".join(_TEMPLATE_TOKENS.values()))
_HARMLESS = str.maketrans("<[", "‹⟦")
_WRAPPED = re.compile(
    r'<untrusted id="(?P<id>[0-9a-f]+)" source="[^"]*">\n(?P<text>.*)\n</untrusted id="(?P=id)">',
    re.DOTALL,
)


def marker_id(turn_id: str, tool_call_id: str) -> str:
    """The same on replay, and unpredictable for anybody who does not know the turn."""
    return hashlib.sha256(f"untrusted:{turn_id}:{tool_call_id}".encode()).hexdigest()[:12]


def harmless(text: str) -> str:
    """`text` without anything that a chat template reads as structure; the same text when there is
    no such thing in it."""
    return _TOKENS.sub(lambda found: found.group().translate(_HARMLESS), text)


def wrap(text: str, *, source: str, marker: str) -> str:
    """`text` between markers that name its source."""
    begin, end = f'<untrusted id="{marker}" source="{source}">', f'</untrusted id="{marker}">'
    return f"{begin}\n{harmless(text)}\n{end}"


def unwrap(text: str) -> str:
    """What stands between the markers; `text` itself when it has none."""
    found = _WRAPPED.fullmatch(text)
    return text if found is None else found["text"]
