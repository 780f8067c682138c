"""What several solved tasks have in common: what varies is a slot, what does not is the operation.

The values of a task are replaced by slots in its steps. They explain the steps if filling in the values of
every other task that aligns gives its steps. A task in other words is taken in if its steps fit the slots
and it has each of their values once.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from shlex import quote
from typing import Any, Literal, NamedTuple

from runtime.memory.tasks.alignment import Alignment, align
from runtime.memory.tasks.binding import NUMBER, plain_number, written
from runtime.memory.tasks.exemplar import CALCULATING, Exemplar
from runtime.memory.tasks.reading import Reading
from runtime.memory.tasks.words import Words
from runtime.text.inflection import singular
from runtime.text.patterns import any_of
from runtime.text.tokens import Token
from runtime.text.tokens import tokens as read_tokens

MethodKind = Literal["steps", "template", "exemplar"]
OPEN = "…"
"""In the steps of a template: an argument that no slot explains."""
COMMANDS = frozenset({"bash"})
"""Tools whose arguments are read by a shell."""
HUNDREDTHS = ("%", "¢")
"""Units whose numbers steps may hold as fractions of 1."""
KINDS = {"path": "exact path", "url": "exact url", "quoted": "exact text"}
NUMBERS = {"": "exact number", "$": "exact amount", "%": "exact percent"}
NUMBERS |= {"¢": "exact cents", "€": "exact euros", "£": "exact pounds"}
"""Kinds of slots by kind and unit of a value; `runtime.reflexes.exact` reads them."""
WORDS_OF_A_NAME, LONGEST = 4, 40
_REFERENCE = re.compile(r"\{\{\s*(.*?)\s*\}\}")
_STEP = re.compile(r"steps\[\d+\]")
_SLOT = re.compile(r"\{\{ (slot \d+)((?: \| \w+)*) \}\}")
_TAKEN = re.compile(r"steps|it|they|it_\w+")
"""Names with another meaning between braces."""

Way = tuple[str | int, ...]
"""The path of a value in steps: the place of the step, the argument, and so on."""


@dataclass(frozen=True)
class Variable:
    """A value, name or noun of one task, with its places."""

    kind: str  # number, path, url, quoted, word
    value: Fraction | str
    unit: str = ""
    places: tuple[Token, ...] = field(default=(), compare=False)

    def text(self, filters: str = "") -> str:
        """How a step holds it, after filters such as ` | hundredth`."""
        if isinstance(self.value, Fraction):
            return written(self.value / 100 if "hundredth" in filters else self.value)
        return quote(self.value) if "| sh" in filters else self.value


class Hole(NamedTuple):
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
    phrase: str = ""  # the same as a phrasing of a reflex


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
class _Task:
    """An exemplar and its values by slot; tasks that align have the same slots."""

    exemplar: Exemplar
    tokens: Sequence[Token]
    values: Mapping[str, Variable]


def calculates(exemplar: Exemplar) -> bool:
    """Whether all steps calculate, so that names and nouns are only labels."""
    return all(step.get("tool") in CALCULATING for step in exemplar.steps)


def shape(exemplar: Exemplar) -> list[Any]:
    """The arguments of a procedure with the values of its task left open."""
    values = {f"slot {at}": each for at, each in enumerate(_leaves(read_tokens(exemplar.task)))}
    return [(way, _SLOT.sub("{}", str(_marked(value, values)))) for way, value in arguments(exemplar)]


def arguments(exemplar: Exemplar) -> list[tuple[Way, Any]]:
    """The arguments of all steps, each with its path."""
    return [
        (way, value)
        for n, step in enumerate(exemplar.steps)
        for way, value in _flat(step.get("args") or {}, (n,))
    ]


def _flat(value: Any, way: Way = ()) -> Iterator[tuple[Way, Any]]:
    """The values inside, each with its path; an empty list or mapping is a value."""
    inner: Iterable[tuple[str | int, Any]] = ()
    if isinstance(value, Mapping):
        inner = value.items()
    elif isinstance(value, list | tuple):
        inner = enumerate(value)
    if not inner:
        yield way, value
    for key, each in inner:
        yield from _flat(each, (*way, key))


def _nested(values: Iterable[tuple[Way, Any]]) -> Any:
    found: dict[Any, Any] = {}
    for way, value in values:
        if not way:
            return value
        found.setdefault(way[0], []).append((way[1:], value))
    made = {key: _nested(inner) for key, inner in found.items()}
    return list(made.values()) if made and all(isinstance(key, int) for key in made) else made


def _aligned(reads: Sequence[tuple[Exemplar, Reading]]) -> list[_Task]:
    """The tasks that align with the first one, with a slot for all values that are equal in each."""
    base = reads[0][1]
    leaves = [token for token in base.tokens if token.leaf]
    found = [(exemplar, read.tokens, align(base, read)) for exemplar, read in reads]
    fitting = [
        (exemplar, tokens, alignment)
        for exemplar, tokens, alignment in found
        if isinstance(alignment, Alignment) and [old for old, _ in alignment.leaves] == leaves
    ]
    labels = sorted({singular(form) for *_, alignment in fitting for form in alignment.exchanged})
    tasks: list[tuple[Exemplar, Sequence[Token], list[Variable]]] = []
    for exemplar, tokens, alignment in fitting:
        values = _leaves(new for _, new in alignment.leaves)
        values += _labels(base.tokens, tokens, alignment, labels)
        if len(values) == len(leaves) + len(labels):
            tasks.append((exemplar, tokens, values))
    columns: dict[tuple[Variable, ...], list[tuple[Token, ...]]] = {}
    for column in zip(*(values for *_, values in tasks), strict=True):
        if len({*column}) > 1:
            before = columns.get(column, [()] * len(tasks))
            columns[column] = [(*old, *each.places) for old, each in zip(before, column, strict=True)]
    slots = [(f"slot {n}", *each) for n, each in enumerate(columns.items())]
    return [
        _Task(exemplar, tokens, {slot: replace(of[at], places=places[at]) for slot, of, places in slots})
        for at, (exemplar, tokens, _) in enumerate(tasks)
    ]


def _leaves(found: Iterable[Token]) -> list[Variable]:
    return [Variable(t.kind, t.value, t.unit, (t,)) for t in found if t.leaf]


def _labels(
    base: Sequence[Token], tokens: Sequence[Token], alignment: Alignment, labels: Sequence[str]
) -> list[Variable]:
    """The word of a task for each name and noun that is replaced in any; without those it has more often."""
    values: list[Variable] = []
    for label in labels:
        forms = [low for token in base if singular(low := _bare(token.low)) == label and token.kind == "word"]
        lows = {alignment.exchanged.get(form, form) for form in forms}
        places = tuple(t for t in tokens if t.kind == "word" and _bare(t.low) in lows)
        if len(places) == len(forms):
            values.append(Variable("word", _bare(places[-1].text), "", places))
    return values


def _bare(word: str) -> str:
    return word.removesuffix("'s").removesuffix("’s")


def _marked(value: Any, values: Mapping[str, Variable], tool: str = "") -> Any:
    """An argument with each value replaced by its slot, such as `{{ slot 1 | hundredth }}`."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return value
    typed = "" if isinstance(value, str) else " | number"
    slots = _by_text(values)
    texts = [text for text, (slot, _) in slots.items() if values[slot].kind != "number" and text]
    names = any_of(texts)

    def put(hit: re.Match[str]) -> str:
        slot, filters = slots.get(hit[0], ("", ""))
        kind = values[slot].kind if slot else ""
        around = hit.string[: hit.start()][-1:] + hit.string[hit.end() :][:1]
        if not slot or (tool in COMMANDS and kind not in ("number", "path") and around.strip()):
            return _spaced(hit[0])  # a text is inserted into a command only where it can be quoted
        shell = " | sh" if tool in COMMANDS and kind != "number" else ""
        return f"{{{{ {slot}{filters}{shell}{typed} }}}}"

    pattern = rf"{{{{.*?}}}}|(?<![\w/.-])(?:{names})(?![\w/-])|{NUMBER.pattern}"
    made = re.sub(pattern, put, str(value))
    return made if not typed or _SLOT.fullmatch(made) else value


def _by_text(values: Mapping[str, Variable]) -> dict[str, tuple[str, str]]:
    """The slot and filter of each text that a step may hold; a whole value comes before a hundredth."""
    hundredths = ((slot, " | hundredth") for slot, each in values.items() if each.unit in HUNDREDTHS)
    found: dict[str, tuple[str, str]] = {}
    for slot, filters in [*((slot, "") for slot in values), *hundredths]:
        found.setdefault(values[slot].text(filters), (slot, filters))
    return found


def _filled(made: Any, values: Mapping[str, Variable]) -> Any:
    if not isinstance(made, str):
        return made
    text = _SLOT.sub(lambda hit: values[hit[1]].text(hit[2]), made)
    return plain_number(text) if made.endswith(" | number }}") else text


def _spaced(value: Any) -> Any:
    """A value with references in one spelling."""
    return _REFERENCE.sub(r"{{ \1 }}", value) if isinstance(value, str) else value


def _foreign(value: Any, slots: Collection[str] = ()) -> bool:
    """Whether a text holds braces other than results of steps and these slots."""
    inside = [hit[1] for hit in _REFERENCE.finditer(value)] if isinstance(value, str) else []
    return any(not _STEP.match(each) and each.partition(" |")[0] not in slots for each in inside)


def _explained(values: Sequence[Any], tasks: Sequence[_Task], tool: str = "") -> Any:
    """The template that gives the value of each task; `OPEN` if there is none."""
    if len({repr(_spaced(value)) for value in values}) == 1:
        return OPEN if _foreign(values[0]) else _spaced(values[0])
    for value, task in zip(values, tasks, strict=True):
        made = _marked(value, task.values, tool)
        filled = (_filled(made, each.values) for each in tasks)
        if all(_spaced(each) == _spaced(other) for each, other in zip(values, filled, strict=True)):
            return made
    return OPEN


def _read(made: Any, value: Any) -> list[tuple[str, str]] | None:
    """Slot and text of each place of a template in a value that fits it."""
    fixed, *places = _SLOT.split(str(made))
    pattern = re.escape(fixed) + "".join(f"(.+){re.escape(text)}" for text in places[2::3])
    hit = re.fullmatch(pattern, _spaced(str(value)), re.DOTALL)
    return list(zip(places[::3], hit.groups(), strict=True)) if hit else None


def _slots_of(made: Any) -> list[str]:
    return [slot for slot, _ in _SLOT.findall(str(made))]


def common(exemplars: Sequence[Exemplar], words: Words) -> Common | None:
    """What these exemplars of one `operation` have in common; None if it cannot be determined."""
    reads = [(each, Reading.read(each.task, words)) for each in exemplars]
    tasks = _aligned(reads)
    tools = [str(step["tool"]) for step in exemplars[0].steps]
    rows = zip(*(arguments(each.exemplar) for each in tasks), strict=True)
    columns = [(row[0][0], [value for _, value in row]) for row in rows]
    made = [(way, _explained(values, tasks, tools[int(way[0])])) for way, values in columns]
    unknown = sum(template == OPEN for _, template in made)
    varying = sum(len({repr(value) for value in values}) > 1 for _, values in columns)
    kind: MethodKind = "steps" if not unknown else "template" if unknown < varying else "exemplar"
    slots = _slots(made, tasks, kind)
    if slots is None or not (slots or unknown):
        return None
    names = _names(slots, made, tools, tasks[0])
    steps = [(way, _renamed(template, names)) for way, template in made]
    if kind == "exemplar":
        steps = [(way, values[0]) for way, values in columns]
    if any(_foreign(value, names.values()) for _, value in steps):
        return None
    wordings = [_wording(each, names, tasks) for each in tasks]
    aligned = [each.exemplar for each in tasks]
    for exemplar, read in reads if kind == "steps" and not calculates(exemplars[0]) else ():
        if exemplar not in aligned and (other := _in_other_words(exemplar, read.tokens, made, names)):
            wordings.append(other)
    return Common(
        kind,
        {name: kind_of([each.values[slot] for each in tasks]) for slot, name in names.items()},
        tuple(wordings),
        tuple({"tool": tool, "args": args} for tool, args in zip(tools, _nested(steps), strict=True)),
        tuple(_success(tasks, names)),
        str(_outside([each.exemplar.output for each in tasks], tasks, names) or ""),
    )


def _slots(made: Sequence[tuple[Way, Any]], tasks: Sequence[_Task], kind: MethodKind) -> list[str] | None:
    """The slots, those of the steps first; None if steps are missing a value that differs.

    Where names are only labels, and in a template, such a value is a slot that no step uses.
    """
    used = list(dict.fromkeys(slot for _, template in made for slot in _slots_of(template)))
    first = tasks[0]
    labels = calculates(first.exemplar)
    unused = [slot for slot in first.values if slot not in used]
    if kind == "steps" and any(not labels or first.values[slot].kind != "word" for slot in unused):
        return None
    return None if labels and kind != "steps" else [*used, *unused]


def _in_other_words(
    exemplar: Exemplar, tokens: Sequence[Token], made: Sequence[tuple[Way, Any]], names: Mapping[str, str]
) -> Wording | None:
    """A task that does not align; None unless its steps fit and it has each value of the slots once."""
    values = {f"leaf {n}": leaf for n, leaf in enumerate(_leaves(tokens))}
    texts = _by_text(values)
    found: dict[str, str] = {}
    for (_, template), (_, value) in zip(made, arguments(exemplar), strict=True):
        if (places := _read(template, value)) is None:
            return None
        for slot, text in places:
            leaf = texts.get(text, ("", ""))[0]
            if found.setdefault(leaf, names[slot]) != names[slot]:
                return None
    if (
        len({*values.values()}) < len(values)
        or "" in found
        or sorted(found.values()) != sorted(names.values())
    ):
        return None
    task = _Task(exemplar, tokens, values)
    return _wording(task, found, [task])


def _success(tasks: Sequence[_Task], names: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    """The common criteria that code can check and slots explain."""
    rows = [[c for c in each.exemplar.success if "judge" not in c] for each in tasks]
    for criteria in zip(*rows, strict=False):
        flats = [list(_flat(criterion)) for criterion in criteria]
        ways = [way for way, _ in flats[0]]
        if any([way for way, _ in each] != ways for each in flats):
            continue
        columns = zip(*([value for _, value in each] for each in flats), strict=True)
        made = [_outside(column, tasks, names) for column in columns]
        if None not in made:
            yield _nested(zip(ways, made, strict=True))


def _outside(values: Sequence[Any], tasks: Sequence[_Task], names: Mapping[str, str]) -> Any:
    """The template of values outside of steps; None if slots do not explain them."""
    made = _explained(values, tasks)
    return None if made == OPEN or not names.keys() >= {*_slots_of(made)} else _renamed(made, names)


def _renamed(made: Any, names: Mapping[str, str]) -> Any:
    if not isinstance(made, str):
        return made
    return _SLOT.sub(lambda hit: f"{{{{ {names[hit[1]]}{hit[2]} }}}}", made)


def _wording(task: _Task, names: Mapping[str, str], alike: Sequence[_Task]) -> Wording:
    """A task with its slots, whose kinds suit all tasks that are alike."""
    holes = [
        Hole(token.start, token.end, name, kind_of([each.values[slot] for each in alike], token))
        for slot, name in names.items()
        for token in task.values[slot].places
    ]
    return Wording(task.exemplar, task.tokens[0].start, task.tokens[-1].end, tuple(sorted(holes)))


def kind_of(values: Sequence[Variable], token: Token | None = None) -> str:
    """The kind of slot that reads a value in all its tasks; `token` is its place in one of them."""
    first = values[0]
    if first.kind == "number":
        return NUMBERS[first.unit]
    if first.kind != "word":
        return KINDS[first.kind]
    if token is not None and token.low.endswith("'s"):
        return "owner"
    capitals = all(place.text[0].isupper() for each in values for place in each.places)
    return "proper name" if capitals else "noun"


def _names(
    slots: Sequence[str], made: Sequence[tuple[Way, Any]], tools: Sequence[str], task: _Task
) -> dict[str, str]:
    """A name for each slot: that of the argument it fills, else the word after its number, else its kind."""
    found: dict[str, str] = {}
    for slot in slots:
        way, template = next(((w, each) for w, each in made if slot in _slots_of(each)), ((0,), ""))
        tool, argument = tools[int(way[0])], str(way[-1])
        kind = kind_of([task.values[slot]])
        plain = {"proper name": "name", "noun": "thing"}.get(kind, kind.removeprefix("exact "))
        wanted = [_counted(task.values[slot], task.tokens), plain]
        if len(way) == 2 and _SLOT.fullmatch(str(template)):
            second = "to" if (tool, argument) == ("write", "path") else f"{tool}_{argument}"
            wanted = [argument, second, *wanted]
        fitting = (name for name in wanted if _fits(name) and name not in found.values())
        found[slot] = next(fitting, "") or _numbered(plain, found.values())
    return found


def _fits(name: str) -> bool:
    return bool(re.fullmatch(r"[a-z]\w{0,30}", name)) and not _TAKEN.fullmatch(name)


def _counted(value: Variable, task: Sequence[Token]) -> str:
    """`boxes` for the 3 in `3 boxes`; "" if there is no such word."""
    behind = next((token for token in task if token.start >= value.places[0].end), None)
    if behind is None or behind.kind != "word" or value.kind != "number" or value.unit:
        return ""
    return behind.low if len(behind.low) > 2 and behind.low.isalpha() else ""


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
