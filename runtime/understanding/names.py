"""What a task names: paths, lines of tracebacks, names of definitions, texts that stand in strings."""

from __future__ import annotations

import builtins
import keyword
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

MOST = 60
"""Maximum names, and keys, of a task that are looked up."""
LONGEST = 60_000
"""Maximum characters of a task that are read."""

_PATH = re.compile(r"(?<![\w/.@-])(?:~?\.{0,2}/)?[\w@+-][\w.@+-]*(?:/[\w.@+-]+)*/?")
_FRAME = re.compile(
    r'File "([^"\n]{1,300})", line (\d{1,7})|(?<![\w./\\@+-])([\w./\\@+-]{1,200}\.\w{1,5}):(\d{1,7})\b'
)
_INLINE = re.compile(r"`([^`\n]{1,300})`")
_INDENTED = re.compile(r" {4}|\t|>>> |\.\.\. ")
_DOTTED = re.compile(r"(?<![\w.])[A-Za-z_]\w*(?:(?:\.|::|#|->)[A-Za-z_]\w*)+")
_SINGLE = re.compile(
    r"`([A-Za-z_]\w*)`|(?<![\w.])([A-Za-z_]\w*)(?=\((?!s\)))|[\])]\.([A-Za-z_]\w*)|"
    r"\b([A-Z]+[a-z0-9]+[A-Z]\w*|[a-z]+[A-Z]\w*|_*[A-Za-z][a-zA-Z0-9]*_\w+|__\w+__)\b|"
    r"(?<![\w-])--([a-z][\w-]+)"
)
"""A name alone in backticks, followed by "(", a member of a result, CamelCase or snake_case, an option."""
_IMPORTED = re.compile(r"^[^\w\n]*(?:from[ \t]+(\S+)[ \t]+)?import[ \t]+(.+)$", re.M)
_OWN = re.compile(r"\b(?:def|class|function|func|fn)\s+(\w+)")
_QUOTED = re.compile(r"""(?<![\w"'])(["'])([^"'\n]{3,80})\1(?![\w"'])""")
_OPTION = re.compile(r"(?<![\w-])--[a-z][\w-]+")
_KEYWORD = re.compile(r"\b([a-z_]\w{2,})=(?!=)")
_RAISED = re.compile(r"\b\w*(?:Error|Exception|Warning|panicked at|Fault)\b:?\s+([^\n`]{8,200})")
_FILLED = re.compile(r"""['"`<{(\[][^'"`\n]*['"`>})\]]|\d+|: """)
_KIND = "function|method|class|decorator|option|field|type|command|filter|plugin"
_SPOKEN = re.compile(
    rf"\A\W*([a-z]\w{{3,}})\b(?!,)|(?<=[a-z,] )([A-Z][a-z]{{3,}})\b|\b(?:{_KIND})\s+([A-Za-z]\w{{3,}})|"
    rf"\b([A-Za-z]\w{{3,}})\s+(?:{_KIND}|crashes|raises|throws|hangs)\b"
)
_COMMON = frozenset(
    re.findall(
        r"\w+",
        """
this that then when what which with from have into some your they make made call list name file line text
data test tests check value values type types function method class option field command object string
number error result output input change update remove delete create write read find show give print count
sort split join open close start stop move copy format parse load save item items first last same other
please should would could there these those where while after before because without using used replace
rename explain describe compare convert translate summarise summarize implement support document refactor
rewrite improve clean
""",
    )
)
"""Words that are no name unless they are written as one."""
_SIGNS = {
    "==": "eq",
    r"\w\[\S{1,60}?\](?! = )": "getitem",
    r"\w\[\S{1,60}?\] = ": "setitem",
    r"[\"'\w)] in \w+\b\)?`": "contains",
    r"\bhash": "hash",
}
"""Signs of Python with the name of the method that does them."""
_OF_PYTHON = frozenset(dir(builtins)) | frozenset(keyword.kwlist) | {"self", "cls", "python"}


@dataclass(frozen=True)
class Named:
    """What a task names. Which of it exists is not known here."""

    task: str
    paths: tuple[str, ...]
    frames: tuple[tuple[str, int], ...]  # a path and a line
    names: Mapping[str, frozenset[str]]  # a name, and the names that stand before it: `a.b.name`
    keys: tuple[str, ...]  # texts that may stand in a string of the source
    options: tuple[str, ...]  # `name=` in a call
    spoken: tuple[str, ...]  # words that a sentence treats as names
    words: tuple[str, ...]  # all other words

    @cached_property
    def around(self) -> frozenset[str]:
        """All names and qualifiers: which of several definitions of one name is meant."""
        stems = (re.split(r"[/\\]", path.rstrip("/"))[-1].split(".")[0] for path in self.paths)
        return frozenset(stems).union(self.names, *self.names.values())

    @property
    def weighed(self) -> list[str]:
        """The words for a search, those of names and of the title several times."""
        names, title = (*self.names, *self.spoken, *self.options), self.task.strip().split("\n")[0]
        plain = [each for each in re.findall(r"\w+", f"{title} {title}") if each in self.words]
        plain = [each for each in (*plain, *self.words) if each.lower() not in _COMMON]
        words = re.findall(r"[a-z0-9]{3,}", parted(" ".join((*names, *names, *plain))))
        signs = [word for sign, word in _SIGNS.items() if re.search(sign, self.task)]
        return [*(each for each in words if each not in _OF_PYTHON), *signs]


def named(task: str) -> Named:
    """Read a task: prose, with code in backticks or indented, tracebacks, or a single line."""
    task = task[:LONGEST]
    prose, code = _divided(task)
    own = set(_OWN.findall("\n".join(each for each in code if "\n" in each)))  # of the example itself
    names: dict[str, set[str]] = {}
    for before, name in _names(task, code):
        if (len(name) > 2 or before) and name not in own:
            names.setdefault(name, set()).update(before)
    spoken = [each for hit in _SPOKEN.findall(prose) for each in hit if each and each.lower() not in _COMMON]
    words = re.findall(r"(?<![\w.])[A-Za-z]\w{3,}\b", task)
    keys = [each for each in _keys(task, code) if re.search(r"[^\W\d_]{3}", each)]
    paths = [hit.rstrip(".") for hit in _PATH.findall(_FRAME.sub(" ", task)) if re.search(r"[./A-Z\d-]", hit)]
    return Named(
        task,
        tuple(dict.fromkeys(paths)),
        tuple((hit[1] or hit[3], int(hit[2] or hit[4])) for hit in _FRAME.finditer(task)),
        {name: frozenset(names[name]) for name in list(names)[:MOST]},
        tuple(dict.fromkeys(keys))[:MOST],
        tuple(dict.fromkeys(hit for each in code for hit in _KEYWORD.findall(each)))[:MOST],
        tuple(dict.fromkeys(each for each in spoken if each not in names))[:MOST],
        tuple(dict.fromkeys(each for each in words if each not in names))[: 2 * MOST],
    )


def _divided(task: str) -> tuple[str, list[str]]:
    """The prose of a task, and its code: one text for all blocks, and what stands in single backticks."""
    prose, block, fenced = list[str](), list[str](), False
    for line in task.split("\n"):
        fence = line.lstrip().startswith("```")
        fenced ^= fence
        (block if fenced or _INDENTED.match(line) else prose).append("" if fence else line)
    text = "\n".join(prose)
    return _INLINE.sub(" ", text), ["\n".join([*block, ""]), *_INLINE.findall(text)]


def _names(task: str, code: list[str]) -> Iterator[tuple[list[str], str]]:
    """Each name with what stands before it."""
    unquoted = _QUOTED.sub(" ", task)
    for hit in _DOTTED.findall(unquoted):
        parts = re.split(r"\.|::|#|->", hit)[:12]
        yield from ((parts[:at], part) for at, part in enumerate(parts) if at or part not in _OF_PYTHON)
    for module, listed in _IMPORTED.findall("\n".join(code)):
        yield from ((re.findall(r"\w+", module), part) for part in re.findall(r"\w+", listed.split("#")[0]))
    for hit in _SINGLE.findall(unquoted):
        yield from (([], each.replace("-", "_")) for each in hit if each and each not in _OF_PYTHON)


def _keys(task: str, code: list[str]) -> Iterator[str]:
    """Texts that may stand in a string of the source."""
    yield from _OPTION.findall(task)
    for hit in _RAISED.findall(task):  # values in a message differ: what stands between them is looked up
        yield from (part.strip(" .:") for part in _FILLED.split(hit) if len(part.strip(" .:")) > 7)
    yield from (text for _, text in _QUOTED.findall(task))
    yield from (hit for hit in _DOTTED.findall(task) if re.fullmatch(r"[a-z][\w.]*", hit))
    yield from (each for each in code[1:] if 3 <= len(each) <= 80)


def parted(text: str) -> str:
    """The words of a text, and of the names in it, in lower case."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|_", " ", text).lower()
