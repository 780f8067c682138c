"""Names that people can read: for slots, by what they are and where they go, and for methods."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from runtime.memory.procedural.leaves import Token
from runtime.memory.procedural.parting import Variable
from runtime.memory.procedural.words import Words

KINDS = {"path": "exact path", "url": "exact url", "quoted": "exact text"}
NUMBERS = {"": "exact number", "$": "exact amount", "%": "exact percent"}
NUMBERS |= {"¢": "exact cents", "€": "exact euros", "£": "exact pounds"}
"""The kinds of slots by the kind and the unit of a leaf; what each reads stands in the reflexes' `exact`."""
_PLAIN = {"exact path": "path", "exact url": "url", "exact text": "text", "exact amount": "amount"}
_PLAIN |= {"exact cents": "cents", "exact euros": "euros", "exact pounds": "pounds"}
_PLAIN |= {"exact number": "number", "exact percent": "percent", "proper name": "name", "noun": "thing"}
_TAKEN = re.compile(r"steps|it|they|it_\w+")
"""What means something else between braces."""
WORDS_OF_A_NAME = 4
LONGEST = 40


def kind_of(variables: Sequence[Variable], token: Token | None = None) -> str:
    """The kind of slot that reads a variable in all of its tasks; of a name or noun, as it stands in one."""
    first = variables[0]
    if first.kind == "number":
        return NUMBERS.get(first.unit, f"exact {first.unit}")
    if first.kind != "word":
        return KINDS[first.kind]
    if token is not None and token.low.endswith("'s"):
        return "owner"
    named = all(place.text[0].isupper() for each in variables for place in each.places)
    return "proper name" if named else "noun"


def named(firsts: Sequence[Variable], goes: Sequence[tuple[str, str]], task: Sequence[Token]) -> list[str]:
    """A name for each slot: its argument's, else the word behind its number, else its kind."""
    several = len({argument for _, argument in goes}) < len(goes)
    goes = [(t, "to" if several and (t, a) == ("write", "path") else a) for t, a in goes]
    arguments = [argument for _, argument in goes]
    found: list[str] = []
    for variable, (tool, argument) in zip(firsts, goes, strict=True):
        shared = arguments.count(argument) > 1
        wanted = [f"{tool}_{argument}" if shared else argument] if argument else []
        wanted += [_counted(variable, task), _PLAIN.get(kind_of([variable]), "number")]
        fitting = (w for w in wanted if _fits(w) and w not in found)
        found.append(next(fitting, "") or _numbered(wanted[-1], found))
    return found


def _fits(name: str) -> bool:
    return bool(re.fullmatch(r"[a-z]\w{0,30}", name)) and not _TAKEN.fullmatch(name)


def _counted(variable: Variable, task: Sequence[Token]) -> str:
    """`boxes`, of the 3 in `3 boxes`; \"\" for what is no number."""
    place = variable.places[0]
    behind = next((token for token in task if token.start >= place.end), None)
    fits = variable.kind == "number" and not variable.unit and behind and behind.kind == "word"
    return behind.low if fits and behind and len(behind.low) > 2 and behind.low.isalpha() else ""


def _numbered(name: str, taken: Collection[str]) -> str:
    return next(each for n in range(2, 1000) if (each := f"{name}_{n}") not in taken)


def slug(task: Sequence[Token], slots: Collection[str], words: Words, taken: Collection[str]) -> str:
    """A file's name from the words of a task that say what is done; `slots` are words that vary."""
    dull = words.markers | words.courtesies | {"is", "are", "it", "into", "from", "than"}
    said = [t.low for t in task if t.kind == "word" and t.low.isascii() and t.low.isalpha()]
    telling = [word for word in said if word not in slots]
    chosen = [word for word in telling if word not in dull][:WORDS_OF_A_NAME] or telling[:2] or ["method"]
    name = "-".join(dict.fromkeys(chosen))[:LONGEST].strip("-")
    return name if name not in taken else _numbered(name, taken).replace("_", "-")
