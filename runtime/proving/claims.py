"""What an answer says that nothing shows: numbers, names and paths from nowhere, and that tests pass.

It compares words and knows no meaning. Claims about tests are read in English.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from runtime.text.grounding import ungrounded

LEAST = 3
"""Letters of a word in a name from which on it counts."""
_FENCES = ("```", "~~~")
_MARKED = re.compile(r"`([^`\n]{1,300})`")
_PATH = re.compile(r"[\"'“‘]((?:[\w.@+-]*/)+[\w.@+-]+)[\"'”’]")
_PLACE = re.compile(r"^(?:\./)?(.*?)(?::\d+(?:[-:]\d+)?)?$")
_WORD = re.compile(r"\w+")
_ABSENT = re.compile(
    r"(?i)\b(?:no|zero|0|without(?: any)?) (?:\w+ )?(?:failures?|errors?|regressions?|warnings?)\b"
)
_BESIDE = (
    r"(?:data(?:set)?s?|fixtures?|inputs?|outputs?|values?|names?|folders?|director(?:y|ies)|environments?|databases?"
    r"|servers?|set-?ups?|plans?|pages?|documents?|descriptions?|comments?|configurations?|examples?)"
)
"""What may be in order beside tests without one that passes: `test data`, `the names of the tests`."""
_NO_CLAIM = re.compile(
    rf"(?i)\b(?:tests?|test ?suites?|suite|specs?)[ -]{_BESIDE}\b"
    rf"|\b{_BESIDE} (?:of|for|in|from) (?:\w+ )?(?:tests?|suite|specs?)\b"
    r"|\bok (?:to|for|as|with|by)\b|\bspec (?:is|was|looks|seems) (?:now )?ok\b"
)
_TESTS = re.compile(r"(?i)\b(?:tests?|test ?suites?|suite|specs?|pytest|unittest|jest|vitest|ctest)\b")
_PASS = re.compile(r"(?i)\b(?:pass|passes|passed|passing|green|succeeds?|succeeded|ok)\b")
_UNLESS = re.compile(
    r"(?i)\b(?:not|no|never|none|cannot|without|unless|until|if|whether|should|would|could|may|might|must|will"
    r"|to (?:pass|make)|makes?|fail\w*|unable|before|expected)\b|n['’]t\b"
)
_PLAINLY = re.compile(r"(?i)\ball green\b|\b[1-9]\d* (?:tests? )?passed\b|\b(?:CI|build) is green\b")


def unsupported(answer: str, task: str, seen: Sequence[str]) -> list[str]:
    """The names in backticks, quoted paths and numbers of an answer that stand nowhere.

    `seen` are the results of calls, and the names and texts of changed files. A single digit is no number.
    A name stands somewhere if each of its words does; a path only as a whole. Blocks of code are left out.
    """
    answer = _without_blocks(answer)
    sources = [task, *seen]
    known = "\n".join(sources)
    words = {hit[0].casefold() for hit in _WORD.finditer(known)}
    paths = [hit[1] for hit in _PATH.finditer(answer)]
    found: list[str] = []
    for name in [*(hit[1].strip() for hit in _MARKED.finditer(answer)), *paths]:
        place = _PLACE.sub(r"\1", name)
        if place in known or name in known:
            continue
        is_command = bool(re.search(r"\s", place))  # what stands for a value in it is no name: `show RUN`
        is_path = "/" in place and not is_command
        parts = [each for each in _WORD.findall(place) if len(each) >= LEAST]
        parts = [each for each in parts if not (is_command and each.isupper())]
        if is_path or any(each.casefold() not in words for each in parts):
            found.append(name)
    rest = _PATH.sub(" ", _MARKED.sub(" ", answer))
    loose = (f"0{each}" if each.startswith(".") else each for each in ungrounded(rest, sources))
    return list(dict.fromkeys([*found, *loose]))


def _without_blocks(text: str) -> str:
    """A text without its blocks of code. A fence that is never closed opens none."""
    lines = text.split("\n")
    last = {fence: at for at, line in enumerate(lines) for fence in _FENCES if _closes(line, fence)}
    kept: list[str] = []
    fence = ""
    for at, line in enumerate(lines):
        if fence:
            fence = "" if _closes(line, fence) else fence
        elif last.get(begun := line.lstrip(" ")[:3], 0) > at:
            fence = begun
        else:
            kept.append(line)
    return "\n".join(kept)


def _closes(line: str, fence: str) -> bool:
    return line.lstrip(" ").startswith(fence) and not line.strip(" `~")


def claims_tests(answer: str) -> bool:
    """Whether an answer says that tests pass, in a sentence without a condition or a negation."""
    text = _NO_CLAIM.sub(" ", _ABSENT.sub(" ", answer))
    if _PLAINLY.search(text):
        return True
    return any(
        _TESTS.search(sentence) and _PASS.search(sentence) and not _UNLESS.search(sentence)
        for sentence in re.split(r"[.!?;:](?=\s|$)|\n|—|, (?:but|and|so) ", text)
    )
