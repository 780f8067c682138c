"""What a server's refusal of a request says of the request: which part of it, and how long it may be."""

from __future__ import annotations

import re
from dataclasses import dataclass

PARTS = {
    "null": re.compile(
        r"content.{0,80}?(?:<nil>|(?:null|none)(?![a-z])|(?:valid|be_a|to_be_a)_string|is_(?:a_)?required)"
        r"|(?:missing|invalid)_['\"`]?content['\"`]?(?:_type)?(?!_filter)|nonetype"
    ),
    "json_schema": re.compile(r"(?:should|must)_be.{0,40}json_object|one_of.{0,60}json_object"),
    "response_format": re.compile(
        r"response_?format|json_?mode|json_?schema|json_?object|structured_?output|grammar|xgrammar"
        r"|guided|constrained|schema|generate_json|json_validate"
    ),
    "stream_options": re.compile(r"stream_?option|include_usage"),
    "prompt_cache_key": re.compile(r"prompt_cache_key"),
    "cache_control": re.compile(r"cache_control|be_a_valid_string|must_be_a_string|expected_a_string"),
    "stream": re.compile(r"(?<!up)stream(?!_?option)"),
    "temperature": re.compile(r"temperature|sampling"),
    "images": re.compile(r"image|vision|multi-?_?modal|mmproj"),
    "tools": re.compile(r"tool|function_?call|functions_are_not"),
    "system": re.compile(
        r"developer_(?:instruction|role|message)|system_(?:role|message|instruction|prompt)"
        r"|(?:role|roles?:?)_['\"`]?(?:system|developer)|['\"`](?:system|developer)['\"`]|roles_must_alternate"
        r"|user_and_assistant_roles"
    ),
}
"""Parts of a request that it can do without, in the order in which they are tried, and how a refusal names
each, with `_` for blanks. `null` is an empty content beside calls, `json_schema` a form with a schema."""
NARROW = ("null", "json_schema")
"""Parts whose refusal names wider ones, too: they are left out alone first."""
AT_FAULT = re.compile(
    r"grammar|schema|response_format|json|guided|constrained|structured|jinja|template|roles_(?:must|are)"
    r"|system_role"
)
"""What a server says of a form that it cannot work with, where the status is that of a fault of its own."""
UNSUPPORTED = re.compile(
    r"(?:not|n't)_(?:currently_|yet_)?(?:support|enabled|permitted|allowed|available|accept)|no_support"
    r"|unsupported_(?:param|value|field|argument)|unrecognized|unknown_(?:param|field|name|argument|key)"
    r"|at_most_0_|requires_--|no_endpoints_found|unexpected_(?:keyword|param|field|argument)|extra_(?:inputs|fields)|roles_must_alternate|deprecated"
)
"""What a server says of what it never takes; other refusals may be about what one request holds."""
NO_TOOLS_HERE = re.compile(r"--jinja|unsupported_param")
"""What llama.cpp's servers say of tools with such a status."""
FILTERED = re.compile(
    r"content_?filter|content_management_policy|data_inspection|content_policy|responsible_?ai|moderation"
)
"""What a provider says that does not answer such a prompt."""
KEY_REFUSED = re.compile(
    r"api_?key_(?:not_valid|expired|is_invalid)|(?:incorrect|invalid)_api_?key|api_key_invalid"
)
"""What some servers say of a key with the status of a bad request."""
LIMITS = ("max_tokens", "max_completion_tokens")
"""The names of the limit of a reply."""
LEAST = 256
"""Tokens below which a reply is not asked for."""
SPARE = 32
"""Tokens that are left free, since servers count a little more than they say."""
_NUMBER = r"[`'\"]?(\d[\d,_]*)[`'\"]?"
_SIZE = r"(?:length|window|size|limit|len)"


def _any(*ways: str) -> re.Pattern[str]:
    """A pattern of several ways to say something, in which N is a number."""
    return re.compile("|".join(way.replace("N", _NUMBER) for way in ways), re.IGNORECASE)


_WINDOW = _any(
    r"limit: \d+ \+ \d+ > N",
    rf"(?:maximum|max|model'?s?) (?:model )?(?:context|sequence|prompt)[ -]?{_SIZE}?[^\d]{{0,24}}N",
    rf"(?:context {_SIZE}|token limit)(?: of(?: only)?| is|:| \()[^\d]{{0,16}}N",
    rf"N (?:tokens? )?(?:maximum context|context {_SIZE})",
    r"maximum number of (?:input )?tokens allowed \(N\)",
    r"tokens? > N maximum",
    r"range of input length should be \[\d+, ?N\]",
    r"`?max_new_tokens`? must be <= N",
)
_PROMPT = _any(
    r"N (?:in the messages|(?:text )?input tokens|of text input|tokens from the input|`?inputs`? tokens and)",
    r"N (?:in the prompt|prompt tokens)",
    r"(?:messages resulted in|prompt contains(?: at least)?|prompt is too long:|prompt has) N",
    r"(?:has|given:|request contains|input token count \(?|request \() ?N",
)
_LONGEST = _any(
    r"supports at most N",
    r"less than or equal to N",
    r"(?:range|between|from)[^\[\d]{0,40}\[?\d+[^\d]{1,20}N",
    r"\d+ > N, which is the maximum",
    r"(?:at most|<=|no more than|not exceed|up to) N",
    r"(?:maximum(?: value)?|limit)(?: is| of|:)? N",
    r"lower than N",
)
_LIMIT_NAMED = re.compile(
    r"max(?:imum)?[_ ]?(?:completion[_ ]?|output[_ ]?|new[_ ]?)?tokens|maxoutputtokens", re.IGNORECASE
)
_TOO_LONG = re.compile(
    rf"context[_ -]?{_SIZE}|maximum (?:prompt|sequence) length|prompt is too long|too many tokens"
    r"|input (?:is|length|tokens? )|maximum number of tokens|exceed\w* (?:the )?(?:model )?token limit"
    r"|reduce the length|too large for model|exceed_context",
    re.IGNORECASE,
)
_UNKNOWN = re.compile(
    r"unsupported|not (?:supported|permitted|allowed)|unknown|unrecognized|unexpected|extra|instead"
    r"|deprecated",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Length:
    """What a refusal says of lengths, in tokens; 0 where it says nothing."""

    window: int = 0  # of prompt and reply
    prompt: int = 0
    longest: int = 0  # of a reply


def length_in(words: str) -> Length | None:
    """What a refusal says of lengths; None if it is not about them."""
    about_limit = _LIMIT_NAMED.search(words)
    too_long = _TOO_LONG.search(words)
    if not too_long and not (about_limit and re.search(r"too large|\d|exceed|must be|invalid", words)):
        return None
    if not too_long and other_limit(words):
        return None
    window = _of(_WINDOW, words) if too_long or "max_new_tokens" in words else 0
    longest = _of(_LONGEST, words) if about_limit and not window else 0
    return Length(window, _of(_PROMPT, words) if window else 0, longest)


def other_limit(words: str) -> str:
    """The name of the limit that a server wants, if it refuses the other one; "" if it does not.

    A name with nothing beside it is the one that it refuses.
    """
    if not _UNKNOWN.search(words) or re.search(r"too large|at most \d", words):
        return ""
    said = [name for name in LIMITS if re.search(rf"(?<![a-z_]){name}", words)]
    if instead := re.search(r"use [`'\"]?(max_\w+)", words, re.IGNORECASE):
        return instead[1] if instead[1] in LIMITS else ""
    if len(said) == 1:
        return next(name for name in LIMITS if name != said[0])
    return "max_completion_tokens" if len(said) == 2 else ""


def named_in(words: str) -> set[str]:
    """The parts of a request that a refusal names."""
    plain = words.casefold().replace(" ", "_")
    return {part for part, names in PARTS.items() if names.search(plain)}


def _of(pattern: re.Pattern[str], words: str) -> int:
    found = pattern.search(words)
    number = next(filter(None, found.groups()), "0") if found else "0"
    return int(re.sub(r"[,_]", "", number)[:12] or 0)
