"""Which models see pictures: by the table of models, else by the names that such models have."""

from __future__ import annotations

import re

from runtime.models.prices import entry_of

_NAMES = re.compile(
    r"vision|llava|moondream|pixtral|internvl|minicpm-?v|smolvlm|(?<![a-z])vl(?![a-z])|[0-9.]vl(?![a-z])"
    r"|gemma-?3(?!n|[:-](?:270m|1b))|llama-?4|gpt-(?:4o|4\.1|4-turbo|5)|(?<![a-z0-9])o[34](?![a-z0-9]|-mini)|o4-mini"
    r"|claude|gemini|mistral-(?:small-3\.[1-9]|medium-3|large-3)",
    re.IGNORECASE,
)


def sees_by_name(model: str) -> bool:
    """Whether a model of this name sees pictures, also behind the name of a gateway."""
    name = model
    while name:
        said = entry_of(name).get("supports_vision")
        if said is not None:
            return bool(said)
        name = name.partition("/")[2]
    return bool(_NAMES.search(model))
