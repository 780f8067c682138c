"""Arguments of which a document shows an excerpt: long ones, and those that hold the form of a secret.

The whole lies in `artifacts/args/`. Its name has the hash of the whole and that of the excerpt, so that a
person's change of either can be told. Only the store knows of excerpts: in memory a step has it all.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import replace

from kernel.document import Document, Step
from kernel.errors import DocumentError
from kernel.grammar import PART_NAME
from kernel.screening import cut, redact_forms
from kernel.text import to_json

SHOWN = 4_000
"""Characters of an argument that a document shows at most. Source: kernel.md, "The state document"."""
PLACE = "args"
"""The folder in `artifacts/`."""


def excerpted(steps: Mapping[int, Step], shelve: Callable[[str, str], str]) -> dict[int, Step]:
    """The steps as a document shows them; `shelve` keeps a text under a name and returns its path."""
    return {n: _excerpt(step, shelve) for n, step in steps.items()}


def _excerpt(step: Step, shelve: Callable[[str, str], str]) -> Step:
    args, whole = dict(step.args or {}), dict(step.whole)
    for name, value in args.items():
        if name in whole or not isinstance(value, str | dict | list) or not PART_NAME.fullmatch(name):
            continue
        text = value if isinstance(value, str) else to_json(value)
        shown = cut(redact_forms(text), SHOWN, "")
        if shown != text:
            ending = "txt" if isinstance(value, str) else "json"
            whole[name] = shelve(f"{PLACE}/{_hash(text)}-{_hash(shown)}.{ending}", text)
            args[name] = shown
    return replace(step, args=args, whole=whole) if whole else step


def completed(document: Document, unshelve: Callable[[str], str], where: str) -> Document:
    """The document with whole arguments; one whose file is gone stays an excerpt and keeps its link."""
    for number in (2, 3):
        section = document.section(number)
        steps = {n: _complete(step, unshelve, where) for n, step in section.steps.items()}
        if steps != section.steps:
            document = document.with_section(number, replace(section, steps=steps))
    return document


def _complete(step: Step, unshelve: Callable[[str], str], where: str) -> Step:
    args, gone = dict(step.args or {}), dict[str, str]()
    for name, path in step.whole.items():
        if not path.removesuffix(".json").removesuffix(".txt").endswith(f"-{_hash(args[name])}"):
            raise DocumentError(
                f"step {step.n}: the excerpt of its argument {name} was changed; change {path} instead, or "
                f"write the whole text in its place and take `→ {path}` away",
                where,
            )
        try:
            text = unshelve(path)
            args[name] = json.loads(text) if path.endswith(".json") else text
        except DocumentError:
            gone[name] = path
        except ValueError as error:
            raise DocumentError(f"step {step.n}: its argument {name} is no JSON: {error}", path) from None
    return replace(step, args=args, whole=gone) if step.whole else step


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def missing(step: Step) -> str:
    """Which whole argument of a step is gone, as an error says it; "" when none is."""
    lost = [f"argument {name}: {path} is gone" for name, path in step.whole.items()]
    return f"{'; '.join(lost)}; put it back, or write the whole argument into the document" if lost else ""
