"""What several solved tasks have in common: what varied is a slot, what did not is the operation.

Tasks that align with one another share a wording. Of tasks in other words the slots are told by the arguments
that they go to; where that leaves any doubt, they are left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from runtime.memory.procedural.alignment import Refusal, align
from runtime.memory.procedural.binding import CALCULATING
from runtime.memory.procedural.exemplar import Exemplar
from runtime.memory.procedural.leaves import Token, tokens, without_courtesies
from runtime.memory.procedural.naming import kind_of, named
from runtime.memory.procedural.parting import Part, Use, Variable, Way, built, flat, foreign, parts, spaced
from runtime.memory.procedural.words import Words, stem

MethodKind = Literal["steps", "template", "exemplar"]
OPEN = "…"
"""In the steps of a template: what has to be worked out each time."""
COMMANDS = frozenset({"bash"})
"""Tools whose arguments are read by a shell."""


@dataclass(frozen=True)
class Slot:
    """A slot of a method, and the kind of it in the wording of its first exemplar."""

    name: str
    kind: str


@dataclass(frozen=True)
class Hole:
    """Where a slot stands in a task, and as what it is read there."""

    start: int
    end: int
    slot: str
    kind: str


@dataclass(frozen=True)
class Wording:
    """A task as it is said: from `start` to `end`, without its courtesies."""

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
    """Exemplars that align; `uses` is what each place of their arguments can be in all of them."""

    told: list[_Told]
    uses: list[frozenset[Use]] = field(default_factory=list[frozenset[Use]])

    def constant(self, id: str) -> bool:
        """Whether a variable is the same in all of them."""
        return len({(t.variables[id].value, t.variables[id].unit) for t in self.told}) == 1


def common(exemplars: Sequence[Exemplar], words: Words) -> Common | Refusal:
    """The method that lies in these; exemplars that are said in another way than it can tell are left out."""
    groups = _groups(exemplars, words)
    calculating = calculates(exemplars[0])
    if calculating:
        groups = groups[:1]
    groups = [group for at, group in enumerate(groups) if _vary(group, words) or at == 0]
    ways = [list(_arguments(told.exemplar)) for group in groups for told in group.told]
    if any([way for way, _ in each] != [way for way, _ in ways[0]] for each in ways):
        return Refusal("their arguments are not of the same form")
    return _Finding(groups, calculating).found()


def calculates(exemplar: Exemplar) -> bool:
    """Whether names and nouns are only labels for it."""
    return all(step.get("tool") in CALCULATING for step in exemplar.steps)


def _arguments(exemplar: Exemplar) -> list[tuple[Way, Any]]:
    return list(flat([{"tool": step["tool"], "args": step.get("args") or {}} for step in exemplar.steps]))


def _groups(exemplars: Sequence[Exemplar], words: Words) -> list[_Group]:
    """Those that align with one another, in the order of the first of each."""
    groups: list[_Group] = []
    for exemplar in exemplars:
        read = without_courtesies(tokens(exemplar.task), words)
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
    """Find the variables of a group's tasks, by the places of its first; leave out what does not fit."""
    base = group.told[0].tokens
    leaves = [token for token in base if token.leaf]
    exchanged: list[dict[str, str]] = []
    kept: list[tuple[_Told, list[Token]]] = []
    for told in group.told:
        found = align(base, told.tokens, words)
        if not isinstance(found, Refusal) and [old for old, _ in found.leaves] == leaves:
            kept.append((told, [new for _, new in found.leaves]))
            exchanged.append(found.exchanged)
    labels = {stem(form) for each in exchanged for form in each}
    forms = {token.low.removesuffix("'s"): token for token in base if token.kind == "word"}
    forms = {form: token for form, token in forms.items() if stem(form) in labels}
    group.told = []
    for (told, news), changed in zip(kept, exchanged, strict=True):
        told.variables = {
            f"leaf {at}": Variable(f"leaf {at}", new.kind, new.value, new.unit, (new,))
            for at, new in enumerate(news)
        }
        whole = True
        for label in labels:
            low = {changed.get(form, form) for form in forms if stem(form) == label}
            places = tuple(t for t in told.tokens if t.kind == "word" and t.low.removesuffix("'s") in low)
            there = sum(stem(t.low.removesuffix("'s")) == label for t in base if t.kind == "word")
            whole = whole and len(places) == there
            if places:
                text = places[-1].text.removesuffix("'s").removesuffix("’s")
                told.variables[label] = Variable(label, "word", text, "", places)
        if whole:
            group.told.append(told)
    return bool(group.told)


class _Finding:
    """The search for slots that explain every argument."""

    def __init__(self, groups: list[_Group], calculates: bool) -> None:
        self.groups = groups
        self.calculates = calculates
        self.members = [told for group in groups for told in group.told]
        self.places: list[tuple[Way, Use | None]] = []  # of the places that vary: where they are
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
            return Refusal("they are not done with the same tools")
        kind: MethodKind = "steps"
        if unknown:
            kind = "template" if len(unknown) < len(varying) else "exemplar"
        if unknown and self.calculates:
            return Refusal("they are not reckoned in the same way")
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
            return Refusal("an argument holds braces that a slot could be taken for")
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
        """The fixed texts of an argument, and for each place between them the uses in each group; or None."""
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
        """Whether a text may be put there: into a command only where it can be quoted."""
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
        """For each slot, the variables that it is in each group; open ones are used by no argument."""
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
        """A value that differs between tasks of a group, and is used nowhere: it may have another form."""
        for at, group in enumerate(self.groups):
            used = {id for each in classes for id in (each[at] if at < len(each) else ())}
            for id, variable in group.told[0].variables.items():
                if id not in used and not group.constant(id):
                    return f"{variable.value} differs, and no step uses it as it stands"
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
        """The criteria that all have, as far as code can decide them and slots explain them."""
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
        """What they answer, if slots and results explain it."""
        piece = self._explained(("output",), [told.exemplar.output for told in self.members], note=False)
        return str(self._template(piece, names)) if piece and self._known(piece, names) else ""

    @staticmethod
    def _known(piece: list[Any], names: Mapping[str, str]) -> bool:
        return all(isinstance(p, tuple) is False or sorted(p[0][0])[0][0] in names for p in piece)


def foreign_slot(text: str, names: Mapping[str, str]) -> bool:
    """Whether a template has braces that are none of these slots and no step's result."""
    for name in set(names.values()):
        text = text.replace("{{ " + name + " ", "{{ steps[1] ")
    return foreign(text)


def _whole(base: _Told, ids: set[str], way: Way) -> bool:
    """Whether a variable is all that an argument holds."""
    value: Any = base.exemplar.steps
    for key in way:
        value = value[key]
    return any(str(base.variables[id].value) == str(value) for id in ids)
