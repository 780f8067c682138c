"""What several solved tasks have in common: what varies is a slot, what does not is the operation.

Tasks that align share a wording. For tasks in other words, slots are identified by the arguments that they
fill; where that is ambiguous, those tasks are left out.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, Literal

from runtime.memory.tasks import Refusal
from runtime.memory.tasks.alignment import Alignment, align
from runtime.memory.tasks.binding import CALCULATING
from runtime.memory.tasks.exemplar import Exemplar
from runtime.memory.tasks.reading import without_courtesies
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


def foreign(text: str) -> bool:
    """Whether a text holds braces that would be read as a slot."""
    return any(not _STEP.match(hit[1]) for hit in _REFERENCE.finditer(text))


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
    aligned: bool = True  # with the first one


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
    """An exemplar that aligns with the first one of its group."""

    exemplar: Exemplar
    tokens: list[Token]
    alignment: Alignment
    variables: Mapping[str, Variable] = field(default_factory=dict[str, Variable])


_Group = list[_Member]


def _constant(group: _Group, id: str) -> bool:
    """Whether a variable is the same in a whole group."""
    return len({(each.variables[id].value, each.variables[id].unit) for each in group}) == 1


@dataclass(frozen=True)
class _Place:
    """A place of an argument that varies: by group, what it could be."""

    way: Way
    kind: str
    uses: list[frozenset[Use]]


def common(exemplars: Sequence[Exemplar], words: Words) -> Common | Refusal:
    """What these exemplars have in common; exemplars in wordings that cannot be explained are left out."""
    groups = _groups(exemplars, words)
    calculating = calculates(exemplars[0])
    groups = [_with_variables(group) for group in (groups[:1] if calculating else groups)]
    rows = [_arguments(each.exemplar) for group in groups for each in group]
    if any([way for way, _ in row] != [way for way, _ in rows[0]] for row in rows):
        return Refusal("their arguments have different forms")
    return _Finding(groups, calculating).found(rows)


def calculates(exemplar: Exemplar) -> bool:
    """Whether all steps calculate, so that names and nouns are only labels."""
    return all(step.get("tool") in CALCULATING for step in exemplar.steps)


def _arguments(exemplar: Exemplar) -> list[tuple[Way, Any]]:
    return list(flat([{"tool": step["tool"], "args": step.get("args") or {}} for step in exemplar.steps]))


def _groups(exemplars: Sequence[Exemplar], words: Words) -> list[_Group]:
    """Groups of exemplars that align; each exemplar aligns with itself."""
    groups: list[_Group] = []
    for exemplar in exemplars:
        read = without_courtesies(exemplar.task, words)
        for group in (*groups, new := _Group()):
            found = align(group[0].tokens if group else read, read, words)
            if not isinstance(found, Refusal):
                group.append(_Member(exemplar, read, found))
                break
        if new:
            groups.append(new)
    return groups


def _with_variables(group: _Group) -> _Group:
    """The members with their variables; those that do not fit the first one are left out."""
    base = group[0].tokens
    leaves = [token for token in base if token.leaf]
    fitting = [each for each in group if [old for old, _ in each.alignment.leaves] == leaves]
    labels = {singular(form) for each in fitting for form in each.alignment.exchanged}
    there = [_bare(token.low) for token in base if token.kind == "word"]
    kept: _Group = []
    for each in fitting:
        found = [
            Variable(f"leaf {at}", new.kind, new.value, new.unit, (new,))
            for at, (_, new) in enumerate(each.alignment.leaves)
        ]
        for label in labels:
            forms = [form for form in there if singular(form) == label]
            lows = {each.alignment.exchanged.get(form, form) for form in forms}
            places = tuple(t for t in each.tokens if t.kind == "word" and _bare(t.low) in lows)
            if len(places) != len(forms):
                break
            found.append(Variable(label, "word", _bare(places[-1].text), "", places))
        else:
            kept.append(replace(each, variables={variable.id: variable for variable in found}))
    return kept


def _bare(word: str) -> str:
    return word.removesuffix("'s").removesuffix("’s")


class _Finding:
    """Finds slots that explain every argument."""

    def __init__(self, groups: list[_Group], calculates: bool) -> None:
        self.groups = groups
        self.calculates = calculates
        self.members = [each for group in groups for each in group]
        self.places: list[_Place] = []

    def found(self, rows: Sequence[Sequence[tuple[Way, Any]]]) -> Common | Refusal:
        columns = [(way, [row[at][1] for row in rows]) for at, (way, _) in enumerate(rows[0])]
        pieces = [(way, self._explained(way, values)) for way, values in columns]
        self.places = [each for _, piece in pieces for each in piece or () if isinstance(each, _Place)]
        varying = [way for way, values in columns if len({repr(value) for value in values}) > 1]
        unknown = [way for way, piece in pieces if piece is None]
        if any(way[1:] == ("tool",) for way in varying):
            return Refusal("they use different tools")
        kind: MethodKind = "steps"
        if unknown:
            kind = "template" if len(unknown) < len(varying) else "exemplar"
        if unknown and self.calculates:
            return Refusal("they are calculated differently")
        classes = self._classes(open_ones=kind != "steps")
        if isinstance(classes, Refusal):
            return classes
        if kind == "steps" and (loose := self._loose(classes)):
            return Refusal(loose)
        names = self._names(classes)
        made = [(way, OPEN if piece is None else self._template(piece, names)) for way, piece in pieces]
        if kind == "exemplar":
            made = [(way, values[0]) for way, values in columns]
        if any(isinstance(value, str) and foreign_slot(value, names) for _, value in made):
            return Refusal("an argument holds braces that look like a slot")
        first = [min(each[0]) for each in classes]
        slots = {names[id]: kind_of([t.variables[id] for t in self.groups[0]]) for id in first}
        if not slots and kind == "steps":
            return Refusal("nothing varies between them")
        wordings = tuple(self._wordings(classes, names))
        return Common(
            kind, slots, wordings, tuple(built(made)), tuple(self._success(names)), self._output(names)
        )

    def _tool(self, way: Way) -> str:
        return str(self.members[0].exemplar.steps[way[0]]["tool"]) if isinstance(way[0], int) else ""

    # ---- arguments ---------------------------------------------------------------------------------------

    def _explained(self, way: Way, values: list[Any]) -> list[Any] | None:
        """An argument as fixed values and places; None if it is unexplained."""
        first = values[0]
        if all(type(value) is type(first) and spaced(value) == spaced(first) for value in values):
            return None if isinstance(first, str) and foreign(first) else [spaced(first)]
        rows = [parts(v, each.variables.values()) for v, each in zip(values, self.members, strict=True)]
        shape = [(part.place, "" if part.place else part.text) for part in rows[0]]
        if any([(p.place, "" if p.place else p.text) for p in row] != shape for row in rows):
            return None
        found: list[Any] = []
        for at, (kind, text) in enumerate(shape):
            column = [row[at] for row in rows]
            if not kind or len({part.text for part in column}) == 1:
                found.append(text or column[0].text)
                continue
            uses = self._uses(column)
            if uses is None or not self._safe(way, shape, at, uses):
                return None
            found.append(_Place(way, kind, uses))
        return found

    def _uses(self, column: list[Part]) -> list[frozenset[Use]] | None:
        """For each group what a place can be in all of it; None when some group cannot tell."""
        rows = iter(column)
        found = [frozenset.intersection(*(next(rows).uses for _ in group)) for group in self.groups]
        for done in ("", "hundredth"):
            of_way = [frozenset(use for use in uses if use[1] == done) for uses in found]
            if all(of_way):
                return of_way
        return None

    def _safe(self, way: Way, shape: list[tuple[str, str]], at: int, uses: list[frozenset[Use]]) -> bool:
        """Whether a text may be inserted: into a command only where it can be quoted."""
        ids = [
            (each, id)
            for group, used in zip(self.groups, uses, strict=True)
            for id, _ in used
            for each in group
        ]
        if self._tool(way) not in COMMANDS or {each.variables[id].kind for each, id in ids} <= {
            "number",
            "path",
        }:
            return True
        before = shape[at - 1][1][-1:] if at else " "
        behind = shape[at + 1][1][:1] if at + 1 < len(shape) else " "
        return before == behind == " "

    # ---- slots -------------------------------------------------------------------------------------------

    def _classes(self, *, open_ones: bool) -> list[list[set[str]]] | Refusal:
        """For each slot, its variables in each group; open slots are in no argument."""
        classes: list[list[set[str]]] = []
        for place in self.places:
            ids = [{id for id, _ in uses} for uses in place.uses]
            known = next((each for each in classes if each[0] & ids[0]), None)
            if known is None:
                classes.append(ids)
            elif known != ids:
                return Refusal("one value of a task goes to places where others have several")
        for at in range(1, len(self.groups)):
            taken = [id for each in classes for id in each[at]]
            if len(taken) > len(set(taken)):
                return Refusal("two values of a task are the same, and could be either's")
        first = self.groups[0]
        labels = {id for each in first for id, v in each.variables.items() if v.kind == "word"}
        loose = {id for id in first[0].variables if open_ones and not _constant(first, id)}
        for id in sorted(labels | loose if self.calculates else loose):
            if not any(id in each[0] for each in classes):
                classes.append([{id}, *(set[str]() for _ in self.groups[1:])])
        return classes

    def _loose(self, classes: list[list[set[str]]]) -> str:
        """A value that differs in a group and is in no step, or there in another form; \"\" for none."""
        for at, group in enumerate(self.groups):
            used = {id for each in classes for id in each[at]}
            for id, variable in group[0].variables.items():
                if id not in used and not _constant(group, id):
                    return f"{variable.value} differs and is in no step"
        return ""

    def _names(self, classes: list[list[set[str]]]) -> dict[str, str]:
        """The name of the slot of each variable of the first group."""
        base = self.groups[0][0]
        goes: list[tuple[str, str]] = []
        for each in classes:
            fitting = (place for place in self.places if {id for id, _ in place.uses[0]} & each[0])
            if place := next(fitting, None):
                whole = len(place.way) == 3 and _whole(base, each[0], place.way)
                goes.append((self._tool(place.way), str(place.way[-1]) if whole else ""))
            else:
                goes.append(("", ""))
        firsts = [base.variables[min(each[0])] for each in classes]
        chosen = named(firsts, goes, base.tokens)
        return {id: name for each, name in zip(classes, chosen, strict=True) for id in each[0]}

    def _wordings(self, classes: list[list[set[str]]], names: Mapping[str, str]) -> Iterator[Wording]:
        for at, group in enumerate(self.groups):
            ids = {id: names[min(each[0])] for each in classes for id in each[at]}
            for member in group:
                holes = [
                    Hole(token.start, token.end, slot, kind_of([t.variables[id] for t in group], token))
                    for id, slot in ids.items()
                    for token in member.variables[id].places
                ]
                ordered = tuple(sorted(holes, key=lambda hole: hole.start))
                yield Wording(
                    member.exemplar, member.tokens[0].start, member.tokens[-1].end, ordered, at == 0
                )

    # ---- templates ---------------------------------------------------------------------------------------

    def _template(self, pieces: list[Any], names: Mapping[str, str]) -> Any:
        if len(pieces) == 1 and not isinstance(pieces[0], _Place):
            return pieces[0]
        return "".join(self._slot(p, names) if isinstance(p, _Place) else p for p in pieces)

    def _slot(self, place: _Place, names: Mapping[str, str]) -> str:
        id, done = min(place.uses[0])
        filters = [done] if done else []
        if place.kind == "text" and self._tool(place.way) in COMMANDS:
            filters.append("sh")
        if place.kind == "typed":
            filters.append("number")
        return "{{ " + " | ".join([names[id], *filters]) + " }}"

    def _success(self, names: Mapping[str, str]) -> Iterator[dict[str, Any]]:
        """The common criteria that code can check and slots explain."""
        rows = [[c for c in each.exemplar.success if "judge" not in c] for each in self.members]
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
        made = self._filled([each.exemplar.output for each in self.members], names, "output")
        return str(made[0]) if made else ""

    def _filled(self, values: list[Any], names: Mapping[str, str], what: str) -> list[Any]:
        """The template of values outside of steps; empty if slots do not explain them."""
        pieces = self._explained((what,), values) or []
        places = [piece for piece in pieces if isinstance(piece, _Place)]
        known = all(min(place.uses[0])[0] in names for place in places)
        return [self._template(pieces, names)] if pieces and known else []


def foreign_slot(text: str, names: Mapping[str, str]) -> bool:
    """Whether a template has braces other than these slots and results of steps."""
    for name in set(names.values()):
        text = text.replace("{{ " + name + " ", "{{ steps[1] ")
    return foreign(text)


def _whole(base: _Member, ids: set[str], way: Way) -> bool:
    """Whether an argument is nothing but a variable."""
    value: Any = base.exemplar.steps
    for key in way:
        value = value[key]
    return any(str(base.variables[id].value) == str(value) for id in ids)
