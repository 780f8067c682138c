"""Which models think before they reply, and how much room that needs beside the reply."""

from __future__ import annotations

import re

USUAL = 8_000
"""Tokens for the thinking of a model that is known to think."""
LARGEST_SHARE = 4
"""Thinking has at most this part of the window: a fourth."""
MORE, MOST_MORE = 2, 2
"""How much more room a model gets that used all of it to think, and how often it is asked again."""
LEAST_MORE = 4_000
"""Tokens that it has then at least."""
SPEED = 50
"""Tokens of thinking a second: a server may be silent while its model thinks."""
_THINKS = re.compile(
    r"gpt-5(?!.*chat)|gpt-oss|(?<![a-z])o[134](?![a-z0-9])|reason|(?<!non-)(?<!no-)think"
    r"|deepseek-r\d|(?<![a-z])r1(?![a-z0-9])|qwq|qwen-?3(?!.*(?:instruct|coder|embed|next-80b-a3b-instruct))"
    r"|gemini-(?:2\.5|[3-9])(?!.*flash-lite)|magistral|glm-(?:4\.[5-9]|[5-9])|grok-(?:3-mini|[4-9])"
    r"|minimax-m\d|nemotron|seed-oss|kimi-k2\.[5-9]|step-3",
    re.IGNORECASE,
)


def room_of(model: str, window: int) -> int:
    """The tokens that a model has for its thinking by its name; 0 for one that is not known to think."""
    name = model.rpartition("/")[2]
    return min(USUAL, window // LARGEST_SHARE) if _THINKS.search(name) else 0
