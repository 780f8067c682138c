"""What several solved tasks have in common: what varies is a slot, what does not is the operation.

The slots are found in the tasks that align with the first one. A task in other words is taken in if each slot
fills its arguments with a value that its task has once.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

from runtime.memory.tasks import Refusal
from runtime.memory.tasks.alignment import Alignment, align
from runtime.memory.tasks.binding import CALCULATING
from runtime.memory.tasks.exemplar import Exemplar
from runtime.memory.tasks.reading import Reading
from runtime.memory.tasks.words import Words
from runtime.text.inflection import singular
from runtime.text.tokens import Token

_REFERENCE = re.compile(r"\{\{\s*(.*?)\s*\}\}")
_STEP = re.compile(r"steps\[\d+\]")
_NUMBER = r"(?<![\w.])(?:\d*\.\d+|\d+)(?![\w.])"

HUNDREDTHS = ("%", "¢")
"""Units whose numbers steps may hold as fractions of 1."""

Way = tuple[str | int, ...]
"""The path of a value in steps: the step, `args`, the argument, and so on."""
Use = tuple[str, str]
"""A variable of the task, and the filter on it: none, or `hundredth`."""


@dataclass(frozen=True)
class Variable:
    """A value, name or noun of one task; its id is the same in all tasks that align."""

    id: str
    kind: str  # number, path, url, quoted, word
    value: Fraction | str
    unit: str = ""
    places: tuple[Token, ...] = ()


@dataclass(frozen=True)
class Part:
    """Fixed text; or a place with its text and the variables that it could be."""

    text: str
    place: str = ""  # number, typed, text; "" is fixed text
    uses: frozenset[Use] = frozenset()


def flat(value: Any, way: Way = ()) -> Iterator[tuple[Way, Any]]:
    """The values inside, each with its path; an empty list or mapping is a value."""
    inner: Iterable[tuple[str | int, Any]] = ()
    if isinstance(value, Mapping):
        inner = value.items()
    elif isinstance(value, list | tuple):
        inner = enumerate(value)
    if not inner:
        yield way, value
    for key, each in inner:
        yield from flat(each, (*way, key))


def built(values: Iterable[tuple[Way, Any]]) -> Any:
    """The inverse of `flat`."""
    found: dict[Any, Any] = {}
    for way, value in values:
        if not way:
            return value
        found.setdefault(way[0], []).append((way[1:], value))
    made = {key: built(inner) for key, inner in found.items()}
    return list(made.values()) if made and all(isinstance(key, int) for key in made) else made


def spaced(value: Any) -> Any:
    """A value with references in one spelling."""
    return _REFERENCE.sub(r"{{ \1 }}", value) if isinstance(value, str) else value


def foreign(text: str, slots: Collection[str] = ()) -> bool:
    """Whether a text holds braces other than results of steps and these slots."""
    inside = (hit[1] for hit in _REFERENCE.finditer(text))
    return any(not _STEP.match(each) and each.partition(" |")[0] not in slots for each in inside)


def parts(value: Any, variables: Iterable[Variable]) -> list[Part]:
    """An argument divided into fixed texts and places of variables."""
    known = list(variables)
    if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
        return [Part(str(value), "typed", _number_uses(str(value), known))]
    if not isinstance(value, str):
        return [Part(repr(value))]
    if whole := _text_uses(value, known):
        return [Part(value, "text", whole)]
    texts = sorted({str(v.value) for v in known if v.kind != "number" and v.value}, key=len, reverse=True)
    names = "|".join(map(re.escape, texts)) or "(?!)"
    found: list[Part] = []
    at = 0
    for hit in re.finditer(
        rf"{{{{.*?}}}}|(?<![\w/.-])(?P<text>{names})(?![\w/-])|(?P<number>{_NUMBER})", value
    ):
        if place := hit.lastgroup:
            uses = _text_uses(hit[0], known) if place == "text" else _number_uses(hit[0], known)
            found += [Part(spaced(value[at : hit.start()])), Part(hit[0], place, uses)]
            at = hit.end()
    found.append(Part(spaced(value[at:])))
    return [part for part in found if part.place or part.text]


def _text_uses(text: str, known: Sequence[Variable]) -> frozenset[Use]:
    return frozenset((each.id, "") for each in known if each.kind != "number" and each.value == text)


def _number_uses(text: str, known: Sequence[Variable]) -> frozenset[Use]:
    value = Fraction(text)
    numbers = [each for each in known if each.kind == "number"]
    hundredths = ((e.id, "hundredth") for e in numbers if e.unit in HUNDREDTHS and e.value == value * 100)
    return frozenset([*((each.id, "") for each in numbers if each.value == value), *hundredths])


KINDS = {"path": "exact path", "url": "exact url", "quoted": "exact text"}
NUMBERS = {"": "exact number", "$": "exact amount", "%": "exact percent"}
NUMBERS |= {"¢": "exact cents", "€": "exact euros", "£": "exact pounds"}
"""Kinds of slots by kind and unit of a value; `runtime.reflexes.exact` reads them."""
_PLAIN = {"exact path": "path", "exact url": "url", "exact text": "text", "exact amount": "amount"}
_PLAIN |= {"exact cents": "cents", "exact euros": "euros", "exact pounds": "pounds"}
_PLAIN |= {"exact number": "number", "exact percent": "percent", "proper name": "name", "noun": "thing"}
_TAKEN = re.compile(r"steps|it|they|it_\w+")
"""Names with another meaning between braces."""
WORDS_OF_A_NAME = 4
LONGEST = 40


def kind_of(variables: Sequence[Variable], token: Token | None = None) -> str:
    """The kind of slot that reads a variable in all its tasks; `token` is its place in one of them."""
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
    """A name for each slot: its argument's, else the word after its number, else its kind."""
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
    """`boxes` for the 3 in `3 boxes`; "" if there is no such word."""
    place = variable.places[0]
    behind = next((token for token in task if token.start >= place.end), None)
    fits = variable.kind == "number" and not variable.unit and behind and behind.kind == "word"
    return behind.low if fits and behind and len(behind.low) > 2 and behind.low.isalpha() else ""


def _numbered(name: str, taken: Collection[str]) -> str:
    return next(each for n in range(2, 1000) if (each := f"{name}_{n}") not in taken)


def slug(task: Sequence[Token], slots: Collection[str], words: Words, taken: Collection[str]) -> str:
    """A file's name from the words of a task; `slots` are words that vary."""
    dull = words.markers | words.courtesies | {"is", "are", "it", "into", "from", "than"}
    said = [t.low for t in task if t.kind == "word" and t.low.isascii() and t.low.isalpha()]
    telling = [word for word in said if word not in slots]
    chosen = [word for word in telling if word not in dull][:WORDS_OF_A_NAME] or telling[:2] or ["method"]
    name = "-".join(dict.fromkeys(chosen))[:LONGEST].strip("-")
    return name if name not in taken else _numbered(name, taken).replace("_", "-")


MethodKind = Literal["steps", "template", "exemplar"]
OPEN = "…"
"""In the steps of a template: an argument that no slot explains."""
COMMANDS = frozenset({"bash"})
"""Tools whose arguments are read by a shell."""


@dataclass(frozen=True)
class Hole:
    """A place of a slot in a task, and its kind there."""

    start: int
    end: int
    slot: str
    kind: str


@dataclass(frozen=True)
class Wording:
    """A task from `start` to `end`, without courtesies, and its slots."""

    exemplar: Exemplar
    start: int
    end: int
    holes: tuple[Hole, ...]


@dataclass(frozen=True)
class Common:
    """What exemplars have in common."""

    kind: MethodKind
    slots: Mapping[str, str]  # the kind of each in the wording of the first exemplar
    wordings: tuple[Wording, ...]
    steps: tuple[dict[str, Any], ...]
    success: tuple[dict[str, Any], ...]
    output: str = ""


@dataclass(frozen=True)
class _Member:
    """An exemplar with its variables; those of tasks that align with the first one have the same ids."""

    exemplar: Exemplar
    tokens: Sequence[Token]
    variables: Mapping[str, Variable]


@dataclass(frozen=True)
class _Place:
    """A place of an argument that varies: what it could be in all aligned tasks, and in each other one."""

    kind: str
    tool: str
    uses: Sequence[frozenset[Use]]


def common(exemplars: Sequence[Exemplar], words: Words) -> Common | None:
    """What these exemplars have in common; None if it cannot be told."""
    reads = [(each, Reading.read(each.task, words)) for each in exemplars]
    base = reads[0][1]
    aligned: list[tuple[Exemplar, Sequence[Token], Alignment]] = []
    others: list[_Member] = []
    for exemplar, read in reads:
        found = align(base, read)
        if not isinstance(found, Refusal):
            aligned.append((exemplar, read.tokens, found))
        elif not calculates(exemplar):
            leaves = leaves_of(token for token in read.tokens if token.leaf)
            others.append(_Member(exemplar, read.tokens, leaves))
    members = list(_with_variables(base.tokens, aligned))
    rows = [_arguments(each.exemplar) for each in (*members, *others)]
    if any([way for way, _ in row] != [way for way, _ in rows[0]] for row in rows):
        return None
    return _Finding(members, others, calculates(exemplars[0])).found(rows)


def calculates(exemplar: Exemplar) -> bool:
    """Whether all steps calculate, so that names and nouns are only labels."""
    return all(step.get("tool") in CALCULATING for step in exemplar.steps)


def _arguments(exemplar: Exemplar) -> list[tuple[Way, Any]]:
    return list(flat([{"tool": step["tool"], "args": step.get("args") or {}} for step in exemplar.steps]))


def leaves_of(tokens: Iterable[Token]) -> dict[str, Variable]:
    """The values of a task as variables."""
    named = ((f"leaf {at}", token) for at, token in enumerate(tokens))
    return {id: Variable(id, t.kind, t.value, t.unit, (t,)) for id, t in named}


def _with_variables(
    base: Sequence[Token], aligned: Sequence[tuple[Exemplar, Sequence[Token], Alignment]]
) -> Iterator[_Member]:
    """The aligned exemplars with their values and labels; those that do not fit the first are left out."""
    leaves = [token for token in base if token.leaf]
    fitting = [each for each in aligned if [old for old, _ in each[2].leaves] == leaves]
    labels = {singular(form) for _, _, found in fitting for form in found.exchanged}
    there = [_bare(token.low) for token in base if token.kind == "word"]
    for exemplar, tokens, found in fitting:
        variables = leaves_of(new for _, new in found.leaves)
        for label in labels:
            forms = [form for form in there if singular(form) == label]
            lows = {found.exchanged.get(form, form) for form in forms}
            places = tuple(t for t in tokens if t.kind == "word" and _bare(t.low) in lows)
            if len(places) != len(forms):
                break
            variables[label] = Variable(label, "word", _bare(places[-1].text), "", places)
        else:
            yield _Member(exemplar, tokens, variables)


def _bare(word: str) -> str:
    return word.removesuffix("'s").removesuffix("’s")


class _Finding:
    """Finds slots that explain every argument."""

    def __init__(self, members: list[_Member], others: list[_Member], calculates: bool) -> None:
        self.members, self.others, self.every = members, others, [*members, *others]
        self.calculates = calculates

    def found(self, rows: Sequence[Sequence[tuple[Way, Any]]]) -> Common | None:
        columns = [(way, [row[at][1] for row in rows]) for at, (way, _) in enumerate(rows[0])]
        pieces = [(way, self._explained(way, values)) for way, values in columns]
        varying = [way for way, values in columns if len({repr(value) for value in values}) > 1]
        unknown = sum(piece is None for _, piece in pieces)
        kind: MethodKind = "steps"
        if unknown:
            kind = "template" if unknown < len(varying) else "exemplar"
        if any(way[1:] == ("tool",) for way in varying) or (unknown and self.calculates):
            return None
        places = [
            (each, str(way[-1]) if piece == [each] and len(way) == 3 else "")
            for way, piece in pieces
            for each in piece or ()
            if isinstance(each, _Place)
        ]
        slots = self._slots([place for place, _ in places], kind)
        if slots is None or not (slots or kind != "steps"):
            return None
        goes = [
            next(((p.tool, to) for p, to in places if _ids(p.uses[0]) & each[0]), ("", "")) for each in slots
        ]
        firsts = [self.members[0].variables[min(each[0])] for each in slots]
        chosen = named(firsts, goes, self.members[0].tokens)
        names = {id: name for each, name in zip(slots, chosen, strict=True) for id in each[0]}
        made = [(way, OPEN if piece is None else _template(piece, names)) for way, piece in pieces]
        if kind == "exemplar":
            made = [(way, values[0]) for way, values in columns]
        if any(isinstance(value, str) and foreign(value, chosen) for _, value in made):
            return None
        return Common(
            kind,
            {name: kind_of(self._of(min(each[0]))) for each, name in zip(slots, chosen, strict=True)},
            tuple(self._wordings(slots, chosen, kind)),
            tuple(built(made)),
            tuple(self._success(names)),
            self._output(names),
        )

    def _of(self, id: str) -> list[Variable]:
        return [each.variables[id] for each in self.members]

    def _constant(self, id: str) -> bool:
        return len({(each.value, each.unit) for each in self._of(id)}) == 1

    # ---- arguments ---------------------------------------------------------------------------------------

    def _explained(self, way: Way, values: list[Any]) -> list[Any] | None:
        """An argument as fixed values and places; None if it is unexplained."""
        first = values[0]
        if all(type(value) is type(first) and spaced(value) == spaced(first) for value in values):
            return None if isinstance(first, str) and foreign(first) else [spaced(first)]
        rows = [parts(v, each.variables.values()) for v, each in zip(values, self.every, strict=True)]
        shape = [(part.place, "" if part.place else part.text) for part in rows[0]]
        if any([(p.place, "" if p.place else p.text) for p in row] != shape for row in rows):
            return None
        tool = str(self.every[0].exemplar.steps[way[0]]["tool"]) if isinstance(way[0], int) else ""
        found: list[Any] = []
        for at, column in enumerate(zip(*rows, strict=True)):
            if not column[0].place or len({part.text for part in column}) == 1:
                found.append(column[0].text)
                continue
            uses = self._uses(column)
            if not uses or not (tool not in COMMANDS or self._safe(shape, at, uses)):
                return None
            found.append(_Place(column[0].place, tool, uses))
        return found

    def _uses(self, column: Sequence[Part]) -> list[frozenset[Use]]:
        """What a place can be in all aligned tasks, and in each other one; empty when one cannot tell."""
        own, others = column[: len(self.members)], column[len(self.members) :]
        found = [frozenset.intersection(*(part.uses for part in own)), *(part.uses for part in others)]
        for done in ("", "hundredth"):
            of_way = [frozenset(use for use in uses if use[1] == done) for uses in found]
            if all(of_way):
                return of_way
        return []

    def _safe(self, shape: Sequence[tuple[str, str]], at: int, uses: Sequence[frozenset[Use]]) -> bool:
        """Whether a value may be inserted into a command: a text only where it can be quoted."""
        of = [*(uses[0] for _ in self.members), *uses[1:]]
        kinds = {each.variables[id].kind for each, ids in zip(self.every, of, strict=True) for id, _ in ids}
        before = shape[at - 1][1][-1:] if at else " "
        behind = shape[at + 1][1][:1] if at + 1 < len(shape) else " "
        return kinds <= {"number", "path"} or before == behind == " "

    # ---- slots -------------------------------------------------------------------------------------------

    def _slots(self, places: Sequence[_Place], kind: MethodKind) -> list[list[set[str]]] | None:
        """For each slot, its variables in the aligned tasks and in each other one; None if it is unclear.

        A value that differs and is in no step is a slot where names are only labels, and in a template.
        """
        slots: list[list[set[str]]] = []
        for place in places:
            ids = [_ids(uses) for uses in place.uses]
            known = next((each for each in slots if each[0] & ids[0]), None)
            if known is None:
                slots.append(ids)
            elif known[0] != ids[0]:
                return None  # a value goes to places where others have several
            else:
                known[1:] = [old if old == new else set[str]() for old, new in zip(known, ids, strict=True)][
                    1:
                ]
        for id, variable in sorted(self.members[0].variables.items()):
            if any(id in each[0] for each in slots) or self._constant(id):
                continue
            if kind == "steps" and not (self.calculates and variable.kind == "word"):
                return None
            slots.append([{id}, *(set[str]() for _ in self.others)])
        return slots

    def _wordings(
        self, slots: Sequence[Sequence[set[str]]], names: Sequence[str], kind: MethodKind
    ) -> Iterator[Wording]:
        """The tasks with their slots; of the others those in which each slot has values of its own."""
        for at, member in enumerate(self.every):
            number = max(at - len(self.members) + 1, 0)
            ids = {id: name for each, name in zip(slots, names, strict=True) for id in each[number]}
            clear = all(each[number] for each in slots) and len(ids) == sum(len(e[number]) for e in slots)
            if number and not (clear and kind == "steps"):
                continue
            holes = [
                Hole(token.start, token.end, slot, kind_of(of, token))
                for id, slot in ids.items()
                for of in [[member.variables[id]] if number else self._of(id)]
                for token in member.variables[id].places
            ]
            holes.sort(key=lambda hole: hole.start)
            start, end = member.tokens[0].start, member.tokens[-1].end
            yield Wording(member.exemplar, start, end, tuple(holes))

    # ---- templates ---------------------------------------------------------------------------------------

    def _success(self, names: Mapping[str, str]) -> Iterator[dict[str, Any]]:
        """The common criteria that code can check and slots explain."""
        rows = [[c for c in each.exemplar.success if "judge" not in c] for each in self.every]
        for criteria in zip(*rows, strict=False):
            flats = [list(flat(criterion)) for criterion in criteria]
            if any([way for way, _ in each] != [way for way, _ in flats[0]] for each in flats):
                continue
            made = [
                (column[0][0], self._filled([value for _, value in column], names, "success"))
                for column in zip(*flats, strict=True)
            ]
            if all(value for _, value in made):
                yield built((way, value[0]) for way, value in made)

    def _output(self, names: Mapping[str, str]) -> str:
        """The common output, if slots and results explain it."""
        made = self._filled([each.exemplar.output for each in self.every], names, "output")
        return str(made[0]) if made else ""

    def _filled(self, values: list[Any], names: Mapping[str, str], what: str) -> list[Any]:
        """The template of values outside of steps; empty if slots do not explain them."""
        pieces = self._explained((what,), values) or []
        known = all(min(_ids(each.uses[0])) in names for each in pieces if isinstance(each, _Place))
        return [_template(pieces, names)] if pieces and known else []


def _ids(uses: Iterable[Use]) -> set[str]:
    return {id for id, _ in uses}


def _template(pieces: list[Any], names: Mapping[str, str]) -> Any:
    """A value with slots in braces; one without places stays what it is."""
    if len(pieces) == 1 and not isinstance(pieces[0], _Place):
        return pieces[0]
    return "".join(_slot(each, names) if isinstance(each, _Place) else each for each in pieces)


def _slot(place: _Place, names: Mapping[str, str]) -> str:
    id, done = min(place.uses[0])
    quoted = "sh" if place.kind == "text" and place.tool in COMMANDS else ""
    typed = "number" if place.kind == "typed" else ""
    return "{{ " + " | ".join(filter(None, [names[id], done, quoted, typed])) + " }}"
