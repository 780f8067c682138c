"""What several solved tasks have in common: what varies is a slot, what does not is the operation.

Tasks that align share a wording. For tasks in other words, slots are identified by the arguments that they
fill; where that is ambiguous, those tasks are left out.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

from runtime.memory.tasks import Refusal
from runtime.memory.tasks.alignment import align
from runtime.memory.tasks.binding import CALCULATING
from runtime.memory.tasks.exemplar import Exemplar
from runtime.memory.tasks.reading import without_courtesies
from runtime.memory.tasks.words import Words
from runtime.text.inflection import singular
from runtime.text.tokens import Token

_REFERENCE = re.compile(r"\{\{\s*(.*?)\s*\}\}")
_STEP = re.compile(r"steps\[\d+\]")
_NUMBER = re.compile(r"(?<![\w.])(?:\d*\.\d+|\d+)(?![\w.])")

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
    if isinstance(value, bool) or value is None or isinstance(value, Mapping | list | tuple):
        return [Part(repr(value))]
    if isinstance(value, int | float):
        return [_number(str(value), "typed", known)]
    text = str(value)
    if whole := _texts(text, known):
        return [Part(text, "text", whole)]
    found: list[Part] = []
    for at, piece in enumerate(re.split(r"(\{\{.*?\}\})", text)):
        found += [Part(spaced(piece))] if at % 2 else _in_text(piece, known)
    return _joined(found)


def _texts(text: str, known: list[Variable]) -> frozenset[Use]:
    return frozenset((each.id, "") for each in known if each.kind != "number" and each.value == text)


def _in_text(text: str, known: list[Variable]) -> list[Part]:
    values = sorted({str(v.value) for v in known if v.kind != "number" and v.value}, key=len, reverse=True)
    if not values:
        return list(_in_numbers(text, known))
    found: list[Part] = []
    at = 0
    for hit in re.finditer(rf"(?<![\w/.-])(?:{'|'.join(map(re.escape, values))})(?![\w/-])", text):
        found += [*_in_numbers(text[at : hit.start()], known), Part(hit[0], "text", _texts(hit[0], known))]
        at = hit.end()
    return [*found, *_in_numbers(text[at:], known)]


def _in_numbers(text: str, known: list[Variable]) -> Iterator[Part]:
    at = 0
    for hit in _NUMBER.finditer(text):
        yield Part(text[at : hit.start()])
        yield _number(hit[0], "number", known)
        at = hit.end()
    yield Part(text[at:])


def _number(text: str, place: str, known: list[Variable]) -> Part:
    uses: set[Use] = set()
    try:
        value = Fraction(text)
    except ValueError:
        return Part(text)
    for each in known:
        if each.kind != "number":
            continue
        if each.value == value:
            uses.add((each.id, ""))
        if each.unit in HUNDREDTHS and each.value == value * 100:
            uses.add((each.id, "hundredth"))
    return Part(text, place, frozenset(uses))


def _joined(found: list[Part]) -> list[Part]:
    made: list[Part] = []
    for part in found:
        if not part.place and made and not made[-1].place:
            made[-1] = Part(made[-1].text + part.text)
        elif part.place or part.text:
            made.append(part)
    return made


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
class Slot:
    """A slot of a method, and its kind in the wording of the first exemplar."""

    name: str
    kind: str


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
    slots: tuple[Slot, ...]
    wordings: tuple[Wording, ...]
    steps: tuple[dict[str, Any], ...]
    success: tuple[dict[str, Any], ...]
    output: str = ""


@dataclass
class _Told:
    """One exemplar with its variables."""

    exemplar: Exemplar
    tokens: list[Token]
    variables: dict[str, Variable]


@dataclass
class _Group:
    """Exemplars that align."""

    told: list[_Told]

    def constant(self, id: str) -> bool:
        """Whether a variable is the same in all of them."""
        return len({(t.variables[id].value, t.variables[id].unit) for t in self.told}) == 1


def common(exemplars: Sequence[Exemplar], words: Words) -> Common | Refusal:
    """What these exemplars have in common; exemplars in wordings that cannot be explained are left out."""
    groups = _groups(exemplars, words)
    calculating = calculates(exemplars[0])
    if calculating:
        groups = groups[:1]
    groups = [group for at, group in enumerate(groups) if _vary(group, words) or at == 0]
    ways = [list(_arguments(told.exemplar)) for group in groups for told in group.told]
    if any([way for way, _ in each] != [way for way, _ in ways[0]] for each in ways):
        return Refusal("their arguments have different forms")
    return _Finding(groups, calculating).found()


def calculates(exemplar: Exemplar) -> bool:
    """Whether all steps calculate, so that names and nouns are only labels."""
    return all(step.get("tool") in CALCULATING for step in exemplar.steps)


def _arguments(exemplar: Exemplar) -> list[tuple[Way, Any]]:
    return list(flat([{"tool": step["tool"], "args": step.get("args") or {}} for step in exemplar.steps]))


def _groups(exemplars: Sequence[Exemplar], words: Words) -> list[_Group]:
    """Groups of exemplars that align."""
    groups: list[_Group] = []
    for exemplar in exemplars:
        read = without_courtesies(exemplar.task, words)
        if not read:
            continue
        for group in groups:
            base = group.told[0].tokens
            if not isinstance(align(base, read, words), Refusal):
                group.told.append(_Told(exemplar, read, {}))
                break
        else:
            groups.append(_Group([_Told(exemplar, read, {})]))
    return groups


def _vary(group: _Group, words: Words) -> bool:
    """Find the variables of a group's tasks; exemplars that do not fit are removed."""
    base = group.told[0].tokens
    leaves = [token for token in base if token.leaf]
    exchanged: list[dict[str, str]] = []
    kept: list[tuple[_Told, list[Token]]] = []
    for told in group.told:
        found = align(base, told.tokens, words)
        if not isinstance(found, Refusal) and [old for old, _ in found.leaves] == leaves:
            kept.append((told, [new for _, new in found.leaves]))
            exchanged.append(found.exchanged)
    labels = {singular(form) for each in exchanged for form in each}
    forms = {token.low.removesuffix("'s"): token for token in base if token.kind == "word"}
    forms = {form: token for form, token in forms.items() if singular(form) in labels}
    group.told = []
    for (told, news), changed in zip(kept, exchanged, strict=True):
        told.variables = {
            f"leaf {at}": Variable(f"leaf {at}", new.kind, new.value, new.unit, (new,))
            for at, new in enumerate(news)
        }
        whole = True
        for label in labels:
            low = {changed.get(form, form) for form in forms if singular(form) == label}
            places = tuple(t for t in told.tokens if t.kind == "word" and t.low.removesuffix("'s") in low)
            there = sum(singular(t.low.removesuffix("'s")) == label for t in base if t.kind == "word")
            whole = whole and len(places) == there
            if places:
                text = places[-1].text.removesuffix("'s").removesuffix("’s")
                told.variables[label] = Variable(label, "word", text, "", places)
        if whole:
            group.told.append(told)
    return bool(group.told)


class _Finding:
    """Finds slots that explain every argument."""

    def __init__(self, groups: list[_Group], calculates: bool) -> None:
        self.groups = groups
        self.calculates = calculates
        self.members = [told for group in groups for told in group.told]
        self.places: list[tuple[Way, Use | None]] = []  # that vary
        self.uses: list[list[frozenset[Use]]] = [[] for _ in groups]

    def found(self) -> Common | Refusal:
        taken: list[tuple[Way, list[Any]]] = []
        rows = [_arguments(told.exemplar) for told in self.members]
        for at, (way, _) in enumerate(rows[0]):
            taken.append((way, [row[at][1] for row in rows]))
        pieces = [(way, self._explained(way, values)) for way, values in taken]
        varying = [way for way, values in taken if len({repr(value) for value in values}) > 1]
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
        names = self._names(classes, [way for way, _ in self.places])
        made = [(way, OPEN if piece is None else self._template(piece, names, way)) for way, piece in pieces]
        if kind == "exemplar":
            made = [(way, values[0]) for way, values in taken]
        if any(isinstance(value, str) and foreign_slot(value, names) for _, value in made):
            return Refusal("an argument holds braces that look like a slot")
        slots = self._slots(classes, names)
        if not slots and kind == "steps":
            return Refusal("nothing varies between them")
        return Common(
            kind,
            slots,
            tuple(self._wordings(classes, names)),
            tuple(built(made)),
            tuple(self._success(names)),
            self._output(names),
        )

    # ---- arguments ---------------------------------------------------------------------------------------

    def _explained(self, way: Way, values: list[Any], *, note: bool = True) -> list[Any] | None:
        """An argument as fixed texts and places, each with its uses by group; None if unexplained."""
        first = values[0]
        same = all(type(value) is type(first) and spaced(value) == spaced(first) for value in values)
        if same:
            return None if isinstance(first, str) and foreign(first) else [spaced(first)]
        cut = [parts(v, t.variables.values()) for v, t in zip(values, self.members, strict=True)]
        shape = [(part.place, "" if part.place else part.text) for part in cut[0]]
        if any([(p.place, "" if p.place else p.text) for p in row] != shape for row in cut):
            return None
        found: list[Any] = []
        noted: list[list[frozenset[Use]]] = []
        for at, (place, text) in enumerate(shape):
            column = [row[at] for row in cut]
            if not place or len({part.text for part in column}) == 1:
                found.append(text or column[0].text)
                continue
            uses = self._uses(column)
            if uses is None or not self._safe(way, shape, at, uses):
                return None
            found.append((uses, place))
            noted.append(uses)
        for uses in noted if note else ():
            self.places.append((way, None))
            for group, each in enumerate(uses):
                self.uses[group].append(each)
        return found

    def _uses(self, column: list[Part]) -> list[frozenset[Use]] | None:
        """For each group what a place can be in all of it; None when some group cannot tell."""
        found: list[frozenset[Use]] = []
        at = 0
        for group in self.groups:
            rows = column[at : at + len(group.told)]
            at += len(group.told)
            found.append(frozenset.intersection(*(part.uses for part in rows)))
        for done in ("", "hundredth"):
            of_way = [frozenset(use for use in uses if use[1] == done) for uses in found]
            if all(of_way):
                return of_way
        return None

    def _safe(self, way: Way, shape: list[tuple[str, str]], at: int, uses: list[frozenset[Use]]) -> bool:
        """Whether a text may be inserted: into a command only where it can be quoted."""
        tool = self.members[0].exemplar.steps[int(way[0])]["tool"] if way and isinstance(way[0], int) else ""
        kinds = {
            t.variables[id].kind
            for g, u in zip(self.groups, uses, strict=True)
            for id, _ in u
            for t in g.told
        }
        if tool not in COMMANDS or kinds <= {"number", "path"}:
            return True
        before = shape[at - 1][1][-1:] if at else " "
        behind = shape[at + 1][1][:1] if at + 1 < len(shape) else " "
        return before == behind == " "

    # ---- slots -------------------------------------------------------------------------------------------

    def _classes(self, *, open_ones: bool) -> list[list[set[str]]] | Refusal:
        """For each slot, its variables in each group; open slots are in no argument."""
        classes: list[list[set[str]]] = []
        for place in range(len(self.places)):
            ids = [{id for id, _ in self.uses[group][place]} for group in range(len(self.groups))]
            known = next((each for each in classes if each[0] & ids[0]), None)
            if known is None:
                classes.append(ids)
            elif known != ids:
                return Refusal("one value of a task goes to places where others have several")
        for at in range(1, len(self.groups)):
            seen: set[str] = set()
            for each in classes:
                if seen & each[at]:
                    return Refusal("two values of a task are the same, and could be either's")
                seen |= each[at]
        first = self.groups[0]
        labels = {id for told in first.told for id, v in told.variables.items() if v.kind == "word"}
        loose = {id for id in first.told[0].variables if open_ones and not first.constant(id)}
        for id in sorted(labels | loose if self.calculates else loose):
            if not any(id in each[0] for each in classes):
                classes.append([{id}])
        return classes

    def _loose(self, classes: list[list[set[str]]]) -> str:
        """A value that differs in a group and is in no step, or there in another form; \"\" for none."""
        for at, group in enumerate(self.groups):
            used = {id for each in classes for id in (each[at] if at < len(each) else ())}
            for id, variable in group.told[0].variables.items():
                if id not in used and not group.constant(id):
                    return f"{variable.value} differs and is in no step"
        return ""

    def _names(self, classes: list[list[set[str]]], ways: list[Way]) -> dict[str, str]:
        """The name of the slot of each variable of the first group."""
        base = self.groups[0].told[0]
        goes: list[tuple[str, str]] = []
        for each in classes:
            at = next((n for n, uses in enumerate(self.uses[0]) if {id for id, _ in uses} & each[0]), None)
            way = ways[at] if at is not None else ()
            tool = str(base.exemplar.steps[int(way[0])]["tool"]) if way else ""
            argument = str(way[-1]) if len(way) == 3 and _whole(base, each[0], way) else ""
            goes.append((tool, argument))
        firsts = [base.variables[sorted(each[0])[0]] for each in classes]
        chosen = named(firsts, goes, base.tokens)
        return {id: name for each, name in zip(classes, chosen, strict=True) for id in each[0]}

    def _slots(self, classes: list[list[set[str]]], names: Mapping[str, str]) -> tuple[Slot, ...]:
        told = self.groups[0].told
        found: dict[str, Slot] = {}
        for each in classes:
            id = sorted(each[0])[0]
            found[names[id]] = Slot(names[id], kind_of([t.variables[id] for t in told]))
        return tuple(found.values())

    def _wordings(self, classes: list[list[set[str]]], names: Mapping[str, str]) -> list[Wording]:
        made: list[Wording] = []
        for at, group in enumerate(self.groups):
            ids = {id: names[sorted(each[0])[0]] for each in classes if at < len(each) for id in each[at]}
            for told in group.told:
                holes = [
                    Hole(token.start, token.end, slot, kind_of([t.variables[id] for t in group.told], token))
                    for id, slot in ids.items()
                    for token in told.variables[id].places
                ]
                ordered = tuple(sorted(holes, key=lambda hole: hole.start))
                first, last = told.tokens[0].start, told.tokens[-1].end
                made.append(Wording(told.exemplar, first, last, ordered, at == 0))
        return made

    # ---- templates ---------------------------------------------------------------------------------------

    def _template(self, pieces: list[Any], names: Mapping[str, str], way: Way = ()) -> Any:
        if len(pieces) == 1 and not isinstance(pieces[0], tuple):
            return pieces[0]
        return "".join(p if isinstance(p, str) else self._slot(p, names, way) for p in pieces)

    def _slot(self, piece: tuple[list[frozenset[Use]], str], names: Mapping[str, str], way: Way) -> str:
        uses, place = piece
        id, done = sorted(uses[0])[0]
        filters = [done] if done else []
        tool = self.members[0].exemplar.steps[int(way[0])]["tool"] if way and isinstance(way[0], int) else ""
        if place == "text" and tool in COMMANDS:
            filters.append("sh")
        if place == "typed":
            filters.append("number")
        return "{{ " + " | ".join([names[id], *filters]) + " }}"

    def _success(self, names: Mapping[str, str]) -> list[dict[str, Any]]:
        """The common criteria that code can check and slots explain."""
        rows = [[c for c in told.exemplar.success if "judge" not in c] for told in self.members]
        found: list[dict[str, Any]] = []
        for at in range(min(map(len, rows))):
            flats = [list(flat(row[at])) for row in rows]
            if any([way for way, _ in each] != [way for way, _ in flats[0]] for each in flats):
                continue
            pieces = [
                (way, self._explained(("success",), [each[n][1] for each in flats], note=False))
                for n, (way, _) in enumerate(flats[0])
            ]
            if all(piece is not None and self._known(piece, names) for _, piece in pieces):
                found.append(built((way, self._template(piece or [], names)) for way, piece in pieces))
        return found

    def _output(self, names: Mapping[str, str]) -> str:
        """The common output, if slots and results explain it."""
        piece = self._explained(("output",), [told.exemplar.output for told in self.members], note=False)
        return str(self._template(piece, names)) if piece and self._known(piece, names) else ""

    @staticmethod
    def _known(piece: list[Any], names: Mapping[str, str]) -> bool:
        return all(isinstance(p, tuple) is False or sorted(p[0][0])[0][0] in names for p in piece)


def foreign_slot(text: str, names: Mapping[str, str]) -> bool:
    """Whether a template has braces other than these slots and results of steps."""
    for name in set(names.values()):
        text = text.replace("{{ " + name + " ", "{{ steps[1] ")
    return foreign(text)


def _whole(base: _Told, ids: set[str], way: Way) -> bool:
    """Whether an argument is nothing but a variable."""
    value: Any = base.exemplar.steps
    for key in way:
        value = value[key]
    return any(str(base.variables[id].value) == str(value) for id in ids)
