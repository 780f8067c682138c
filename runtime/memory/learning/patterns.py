"""Learned patterns as markdown files that a person can read, correct and switch off.

The file is the only copy; text outside the known keys and headings is kept. Patterns can be imported from and
exported to one file of good practice: headings are titles, the text below is the guidance, and the lines
`Applies to:` (task types) and `Avoid:` are optional. Without headings each list item is a pattern."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, get_args

from kernel.asking.responder import estimate_tokens
from kernel.document.escaping import INVISIBLE, fingerprint
from kernel.errors import FractalError

DEFAULT = "default"
"""The name of the agent and the space if none is set."""
GENERAL = "general"
"""The type of tasks that have no other type."""
LARGEST = 20_000
"""Bytes of a pattern's file, at most."""
LONGEST = 300
"""Tokens of guidance and `avoid` together, at most."""
NAMES = re.compile(r"[a-z0-9][a-z0-9-]{0,59}")
MOST_SOURCES = 8
"""Sources that a file lists, the newest ones."""

Scope = Literal["all", "space", "agent"]
Status = Literal["active", "off"]
Origin = Literal["contrast", "distilled", "model", "imported", "person", "guidance"]
_HIDDEN = re.compile(f"[{INVISIBLE}]")
_END = re.compile(r"(?ms)\A---[ \t]*\n(.*?)^---[ \t]*$\n?")


class PatternError(FractalError):
    """An invalid pattern file; the message begins with file and line."""

    def __init__(self, message: str, path: Path, line: int = 1) -> None:
        super().__init__(f"{path}:{line}: {message}")
        self.path, self.line = path, line


@dataclass(frozen=True)
class Pattern:
    """Advice, learned from outcomes or written by a person."""

    name: str  # its file is NAME.md
    guidance: str  # what to do
    avoid: str = ""  # what not to do
    title: str = ""
    why: str = ""  # the evidence, in figures
    types: tuple[str, ...] = (GENERAL,)  # of tasks
    confidence: float = 0.5
    success_rate: float = 0.0  # of the attempts that follow it
    samples: int = 0  # attempts that it was learned from
    helpful: int = 0  # accepted attempts that were shown it and followed it
    harmful: int = 0  # the same, rejected
    scope: Scope = "all"
    agent: str = DEFAULT  # the owner in scope agent
    status: Status = "active"
    origin: Origin = "contrast"
    rule: str = ""  # as a rule that code can check; see `rules`
    agents: tuple[str, ...] = ()  # agents that it helped
    created: str = ""
    last_used: str = ""
    sources: tuple[str, ...] = ()  # documents, relative to `state`
    path: Path | None = field(default=None, compare=False)
    edited: bool = field(default=False, compare=False)  # a person changed its words

    @property
    def tokens(self) -> int:
        """Its approximate size in a prompt."""
        return estimate_tokens(self.shown()) + 1

    @property
    def source(self) -> str:
        """Its name in prompts and in documents of runs that were shown it."""
        return f"patterns/{self.name}.md"

    @property
    def active(self) -> bool:
        """Whether it may be shown."""
        return self.status == "active"

    @property
    def owner(self) -> tuple[str, str]:
        """Its scope, and its agent in scope agent: only patterns of one owner are merged."""
        return self.scope, self.agent if self.scope == "agent" else ""

    @property
    def fixed(self) -> bool:
        """Whether a person wrote or corrected it; learning then keeps its words."""
        return self.edited or self.origin in ("person", "imported")

    def line(self) -> str:
        """One line for a prompt, without the source."""
        avoid = f" Avoid: {_line(self.avoid)}" if self.avoid else ""
        return f"- {_line(self.guidance)}{avoid}"

    def shown(self) -> str:
        """One line for a prompt, with the source."""
        return f"{self.line()} ({self.source})"

    def grade(self) -> str:
        """The confidence as a word."""
        return "high" if self.confidence >= 0.75 else "medium" if self.confidence >= 0.5 else "low"


_ORDER = (
    "types confidence success_rate samples tokens helpful harmful scope agent status origin rule agents "
    "created last_used written"
)
KEYS = {
    name: {"types": "task types", "agents": "helped"}.get(name, name.replace("_", " "))
    for name in _ORDER.split()
}
"""The keys of the frontmatter, in their order."""
_HEADINGS = {"avoid": "Avoid", "why": "Why", "sources": "From"}
WORDS = ("title", "guidance", *_HEADINGS)
"""The fields in the body."""
_FORMS: Mapping[str, tuple[str, str]] = {
    **dict.fromkeys(("types", "agents"), (NAMES.pattern, "a list of names of a-z, 0-9 and -")),
    **dict.fromkeys(("confidence", "success_rate"), (r"0?\.\d+|0|1(\.0*)?", "a number from 0 to 1")),
    **dict.fromkeys(("samples", "helpful", "harmful"), (r"\d{1,9}", "a whole number")),
    "agent": (NAMES.pattern, "a name of a-z, 0-9 and -"),
    **{
        name: ("|".join(get_args(each)), f"one of {', '.join(get_args(each))}")
        for name, each in (("scope", Scope), ("status", Status), ("origin", Origin))
    },
}
"""The form of a value, and what it is called in an error."""


def titled(name: str) -> str:
    """A name as a heading."""
    text = name.replace("-", " ")
    return text[:1].upper() + text[1:]


def named(title: str) -> str:
    """A heading as a name."""
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")[:60].strip("-") or "pattern"


def write(pattern: Pattern, up: str = "../../") -> str:
    """The text of the file; `up` is the relative path from its folder to `state`."""
    front = [f"{KEYS[key]}: {value}\n" for key in KEYS if (value := _value(pattern, key)) is not None]
    body = [f"# {pattern.title or titled(pattern.name)}\n\n{pattern.guidance}"]
    for key, heading in _HEADINGS.items():
        if text := getattr(pattern, key):
            if key == "sources":
                text = "\n".join(f"- [{Path(each).stem}]({up}{each})" for each in text)
            body.append(f"## {heading}\n\n{text}")
    return _file(front, body)


def _file(front: Iterable[str], body: Iterable[str]) -> str:
    return f"---\n{''.join(front)}---\n" + "\n\n".join(part.rstrip() for part in body) + "\n"


def _value(pattern: Pattern, key: str) -> str | None:
    """The value of a frontmatter key; None to omit the key."""
    if key == "written":
        return _written(pattern)
    value = getattr(pattern, key)
    if key in ("types", "agents"):
        return f"[{', '.join(value)}]" if value else None
    if key in ("rule", "last_used", "created") and not value:
        return None
    if key == "agent" and pattern.scope != "agent":
        return None
    if key in ("created", "last_used"):
        return f'"{value}"'
    return f"{value:.2f}" if isinstance(value, float) else str(value)


def _written(pattern: Pattern) -> str:
    """The fingerprint of the words; if a file's words differ from it, a person has corrected them."""
    return f'"{fingerprint([pattern.title or titled(pattern.name), pattern.guidance, pattern.avoid])}"'


def changed(text: str, before: Pattern, after: Pattern, up: str = "../../") -> str:
    """The file with only the changed lines and sections replaced."""
    current, old, new = map(_blocks, (text, write(before, up), write(after, up)))
    for entries, was, now in zip(current, old, new, strict=True):
        for key in {**was, **now}:
            if key not in now:
                entries.pop(key, None)
            elif was.get(key) != now[key]:
                entries[key] = now[key]
    return _file(current[0].values(), current[1].values())


def _blocks(text: str) -> tuple[dict[str, str], dict[str, str]]:
    """The entries of the frontmatter by key, and the sections of the body by heading; "" for the first."""
    head = _END.match(text)
    assert head is not None  # it was parsed before
    entries = re.findall(r"(?m)^.*\n(?:[ \t]+.*\n|- .*\n)*", head[1])
    first, *rest = re.split(r"(?m)^(?=## )", text[head.end() :])
    sections = {each.partition("\n")[0][3:].strip().lower(): each for each in rest}
    return {each.partition(":")[0]: each for each in entries}, {"": first, **sections}


def read(path: Path) -> Pattern:
    """The pattern of a file. Raises `PatternError` with file and line."""
    return parse(text_of(path), path)


def text_of(path: Path, most: int = LARGEST) -> str:
    """The text of a file. Raises `PatternError` if it is too long or no text."""
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise PatternError(f"cannot be read: {error.strerror}", path) from None
    if len(raw) > most:
        raise PatternError(f"{len(raw):,} bytes are too many; {most:,} at most", path)
    try:
        text = raw.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        raise PatternError("not UTF-8 text; save the file as UTF-8", path, line) from None
    return text


def _refuse_hidden(text: str, path: Path) -> None:
    if hidden := _HIDDEN.search(text):
        line = text.count("\n", 0, hidden.start()) + 1
        raise PatternError(f"the invisible character U+{ord(hidden[0]):04X}; remove it", path, line)


def parse(text: str, path: Path) -> Pattern:
    """The pattern of a file's text."""
    if not NAMES.fullmatch(path.stem):
        raise PatternError("the file name must be of a-z, 0-9 and -, at most 60 long; rename it", path)
    _refuse_hidden(text, path)
    head = _END.match(text)
    if head is None:
        fix = "begin with a line ---, keys such as `task types: [code]`, and a line ---"
        raise PatternError(f"no frontmatter; {fix}", path)
    front = _yaml(head[1], path)
    lines = {line.partition(":")[0]: number for number, line in enumerate(head[1].splitlines(), 2)}
    values = {
        name: _value_of(name, front[key], path, lines.get(key, 2))
        for name, key in KEYS.items()
        if key in front and name not in ("tokens", "written")
    }
    if values.get("scope") == "agent" and not values.get("agent"):
        raise PatternError("scope is agent, but the key `agent:` is missing", path, lines.get("scope", 2))
    words = _words(text[head.end() :], text.count("\n", 0, head.end()) + 1, path)
    pattern = Pattern(name=path.stem, path=path, **values, **words)
    return replace(pattern, edited=front.get("written") not in (None, "", _written(pattern).strip('"')))


def _yaml(front: str, path: Path) -> Mapping[str, Any]:
    import yaml

    try:
        loader: Any = getattr(yaml, "CBaseLoader", yaml.BaseLoader)  # strings only: keeps `off` a string
        front_values = yaml.load(front, loader) or {}
    except (yaml.YAMLError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        line = mark.line + 2 if mark else 2
        problem = getattr(error, "problem", None) or "not understood"
        hint = "quote text with a colon, comma or bracket"
        raise PatternError(f"the frontmatter is not YAML: {problem}; {hint}", path, line) from None
    if not isinstance(front_values, dict):
        raise PatternError("the frontmatter is not a list of `key: value`", path, 2)
    return front_values


def _value_of(name: str, value: Any, path: Path, line: int) -> Any:
    several = name in ("types", "agents")
    form, wanted = _FORMS.get(name, (r"(?s).*", "one value"))
    if several and isinstance(value, str):
        value = [each.strip() for each in value.split(",")]
    each: Any = [one for one in value if one] if several and isinstance(value, list) else [value]
    if not all(isinstance(one, str) and re.fullmatch(form, one) for one in each):
        raise PatternError(f"{KEYS[name]}: {str(value)[:40]!r} is not {wanted}", path, line)
    if several:
        return tuple(dict.fromkeys(each)) or ((GENERAL,) if name == "types" else ())
    return type(Pattern.__dataclass_fields__[name].default)(value)


def _words(body: str, first: int, path: Path) -> dict[str, Any]:
    """Title, guidance and the sections; `first` is the line where the body begins."""
    heading = re.search(r"(?m)^# +(.*)$", body)
    if heading is None:
        raise PatternError("no heading `# …` with the pattern's title", path, first)
    at = first + body.count("\n", 0, heading.start())
    guidance, *rest = re.split(r"(?m)^## +", body[heading.end() :])
    sections = {
        name.strip().lower(): text.strip() for name, _, text in (each.partition("\n") for each in rest)
    }
    guidance, avoid = guidance.strip(), sections.get("avoid", "")
    _refuse_unfit(guidance, avoid, path, at)
    links = re.findall(r"\]\((?:\.\./)*([^)\s]+)\)", sections.get("from", ""))
    return {
        "title": heading[1].strip(),
        "guidance": guidance,
        "avoid": avoid,
        "why": sections.get("why", ""),
        "sources": tuple(links),
    }


def _refuse_unfit(guidance: str, avoid: str, path: Path, line: int) -> None:
    if not guidance:
        raise PatternError("nothing under the heading: say what to do", path, line)
    if (size := estimate_tokens(guidance + avoid)) > LONGEST:
        raise PatternError(f"{size} tokens of guidance; {LONGEST} at most, as prompts show few", path, line)


def _line(text: str) -> str:
    return " ".join(text.split())


LARGEST_PRACTICE = 1_000_000
"""Bytes of a file of good practice, at most."""
MOST = 500
"""Patterns in one such file, at most."""
_HEADING = re.compile(r"(?m)^#{1,6} +(.*?) *#*$")
_POINT = re.compile(r"(?m)^[-*+] +(.*)$")
_FIELD = re.compile(r"^\**(applies to|avoid)\**\s*:\**\s*(.*)$", re.IGNORECASE)


def read_practice(path: Path, now: str = "") -> list[Pattern]:
    """The patterns in a file of good practice. Raises `PatternError` with file and line."""
    text = text_of(path, LARGEST_PRACTICE)
    _refuse_hidden(text, path)
    patterns = [_pattern(*each, path, now) for each in _sections(text)]
    if not patterns:
        raise PatternError("no heading with text under it and no list: nothing to learn from", path)
    if len(patterns) > MOST:
        raise PatternError(f"{len(patterns)} patterns are too many for one file; {MOST} at most", path)
    return patterns


def _sections(text: str) -> Iterator[tuple[str, str, int]]:
    """Title, text and line number of each section with text; without any, the items of its list."""
    front = _END.match(text)
    headings = [*_HEADING.finditer(text, front.end() if front else 0)]
    ends = [*(each.start() for each in headings[1:]), len(text)]
    sections = [(hit, text[hit.end() : end]) for hit, end in zip(headings, ends, strict=False)]
    sections = [(hit, body) for hit, body in sections if hit[1].strip("* ") and body.strip()]
    points = [(hit, hit[1]) for hit in _POINT.finditer(text, front.end() if front else 0)]
    is_list = len(sections) <= 1 < len(points) or not sections  # one heading above a list is its title
    for hit, body in points if is_list else sections:
        yield hit[1].strip("* "), body, text.count("\n", 0, hit.start()) + 1


def _pattern(title: str, body: str, line: int, path: Path, now: str) -> Pattern:
    fields: dict[str, str] = {}
    words: list[str] = []
    for line_text in body.splitlines():
        if field := _FIELD.match(line_text.strip().removeprefix("- ")):
            fields[field[1].lower()] = field[2].strip()
        elif not line_text.startswith("(learned:"):
            words.append(line_text)
    guidance, avoid = "\n".join(words).strip(), fields.get("avoid", "")
    _refuse_unfit(guidance, avoid, path, line)
    types = (named(each) for each in fields.get("applies to", "").split(",") if each.strip())
    short = title if len(title) <= 60 else " ".join(title[:60].split()[:-1])
    return Pattern(
        named(short),
        guidance,
        avoid,
        short,
        types=tuple(dict.fromkeys(types)) or (GENERAL,),
        confidence=0.6,
        origin="imported",
        created=now,
        why=f"From {path.name}, line {line}.",
    )


def write_practice(patterns: Iterable[Pattern]) -> str:
    """The patterns as one file that `read_practice` can read."""
    parts = ["# Good practice\n"]
    for pattern in sorted(patterns, key=lambda each: (each.types, -each.confidence, each.name)):
        lines = [f"## {pattern.title or pattern.name}\n", f"Applies to: {', '.join(pattern.types)}"]
        if pattern.avoid:
            lines.append(f"Avoid: {' '.join(pattern.avoid.split())}")
        lines += ["", pattern.guidance, ""]
        if pattern.why:
            lines += [f"(learned: {' '.join(pattern.why.split())})", ""]
        parts.append("\n".join(lines))
    return "\n".join(parts)
