"""Mark text from outside before a model reads it (turn.md §3).

The marker's id is unknown to whoever wrote the text, so the text cannot close it; chat-template
tokens inside are broken up, so that no server reads them as structure.
"""

import hashlib
import re

_TEMPLATE_TOKENS = re.compile(
    r"<\|(?=[a-z_]{2,32}\|>)|\[(?=/?INST\])|<(?=/?(?:s|bos|eos|start_of_turn|end_of_turn)>)",
    re.IGNORECASE,
)
_WRAPPED = re.compile(
    r'<untrusted id="(?P<id>[0-9a-f]+)" source="[^"]*">\n(?P<text>.*)\n</untrusted id="(?P=id)">',
    re.DOTALL,
)


def marker_id(turn_id: str, tool_call_id: str) -> str:
    """The same on replay, and unpredictable for anybody who does not know the turn."""
    return hashlib.sha256(f"untrusted:{turn_id}:{tool_call_id}".encode()).hexdigest()[:12]


def wrap(text: str, *, source: str, marker: str) -> str:
    """`text` between markers that name its source."""
    harmless = _TEMPLATE_TOKENS.sub(
        lambda match: match.group().replace("<", "‹").replace("[", "⟦"), text
    )
    return f'<untrusted id="{marker}" source="{source}">\n{harmless}\n</untrusted id="{marker}">'


def unwrap(text: str) -> str:
    """What stands between the markers; `text` itself when it has none."""
    found = _WRAPPED.fullmatch(text)
    return text if found is None else found["text"]
