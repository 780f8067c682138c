"""Tools that runs lacked: a need that no tool covers, or the same improvised command again and again.

They are read from a run's documents after the run, counted in `state/system/needs.json`, and lead to one
proposal to build.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass

from kernel import disk
from kernel.document.model import Document
from runtime.evolution.files import one_line
from runtime.evolution.journal import MACHINE, Journal
from runtime.evolution.proposals import Proposal, Proposals
from runtime.memory import DIRECT, RUNG

OFTEN = 3
"""How often a command is improvised before a tool for it is proposed."""
EXAMPLES = 5
REMEMBERED = 500
"""Needs and commands that are kept; the oldest are forgotten."""
SHOWN_CHARS = 300
_LACKS = re.compile(
    r"(?i)\b(?:no|not any|without|lacks?|lacking|missing|needs?|none of the)\b[^.\n]{0,80}?"
    r"\b(?:tools?|operations?|capabilit(?:y|ies)|skills?|way to|means to|access to)\b"
)

_STRINGS = re.compile(r"""'[^'\n]*'|"[^"\n]*\"""")


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


_KEYWORDS = _set("if then else elif fi for in do done while until case esac ! { } time")
_PREPARING = _set("cd set export echo printf true false : mkdir source . test [ exit wait sleep")
"""Programs that do no work of their own in a line with others."""
_SHOWING = _set("ls cat head tail pwd wc which file less stat")
_INTERPRETERS = _set("awk gawk mawk perl ruby node python python3")
"""Programs that are given a program: its words belong to the shape."""
_SUBCOMMANDS = _set("git npm docker cargo pip go kubectl make apt systemctl gh uv")
_PROGRAM_WORDS, _LEAST_WORDS = 12, 3


@dataclass(frozen=True)
class Instance:
    """Where a tool was missing: the run, the loop and step, and what was done or reported instead."""

    run: str
    where: str
    text: str

    @property
    def shown(self) -> str:
        """The text on one line."""
        return one_line(self.text, SHOWN_CHARS)


class MissingTools:
    """What the runs of one workspace lacked so far."""

    def __init__(self, journal: Journal, proposals: Proposals) -> None:
        self.journal = journal
        self.proposals = proposals
        self.path = journal.folder / "needs.json"

    def look(self, documents: Sequence[Document]) -> list[Proposal]:
        """Count what a finished run lacked; returns the proposals that are made now."""
        instances = [*lacking(documents), *improvised(documents)]
        if not instances:
            return []
        with self.journal.locked():
            saved = self._recorded()
            for key, new in instances:
                earlier = [one for one in saved.pop(key, []) if (one.run, one.where) != (new.run, new.where)]
                saved[key] = [*earlier, new][-EXAMPLES:]
            self._save(dict(list(saved.items())[-REMEMBERED:]))
        proposed = {each.draft for each in self.proposals.all() if each.kind == "build"}
        due = [key for key in dict.fromkeys(key for key, _ in instances) if key not in proposed]
        return [
            self._propose(key, saved[key])
            for key in due
            if key.startswith("need ") or len(saved[key]) >= OFTEN
        ]

    def _propose(self, key: str, instances: Sequence[Instance]) -> Proposal:
        last = instances[-1]
        kind, _, sample = key.partition(" ")
        if kind == "command":
            unit, level = "operations", "operation"
            reason = f"the same command was improvised {len(instances)} times: {sample}"
            need = "An operation that does what these commands do, with their differences as arguments."
            motive = "Each time a model wrote it anew."
        else:
            unit, level = "tools", "tool"
            reason = f"a plan found no tool: {last.shown}"
            need = f"A tool that covers this need: {last.text}"
            motive = "The run could not go on without it."
        places = "\n".join(f"- run {each.run}, {each.where}: {each.shown}" for each in instances)
        text = (
            f"# {reason}\n\nWhat: {need}\n\nWhy: {motive}\n\nWhere it came up:\n{places}\n\n"
            f"Level: {level}; it is registered in the index that plans choose from."
        )
        examples = "\n".join(f"- {each.shown}" for each in instances)
        task = f"Build a new {level} and test it. {need}\nIt came up here:\n{examples}"
        new = Proposal("build", unit, reason, MACHINE, run=last.run, draft=key, task=task, text=text)
        return self.proposals.make(new)

    def _recorded(self) -> dict[str, list[Instance]]:
        """The last instances of each need and command; none if the file is damaged."""
        try:
            values = json.loads(self.path.read_bytes())
            return {key: [Instance(**one) for one in entry["seen"]] for key, entry in values.items()}
        except (OSError, ValueError, TypeError, KeyError, AttributeError):
            return {}

    def _save(self, recorded: Mapping[str, Sequence[Instance]]) -> None:
        values = {key: {"seen": [asdict(each) for each in seen]} for key, seen in recorded.items()}
        with disk.writing_state(self.path):
            disk.put(self.path, json.dumps(values, indent=0).encode(), mode=0o600)


def lacking(documents: Sequence[Document]) -> Iterator[tuple[str, Instance]]:
    """Plans that failed because no tool fits, in loops that did not end well after all, by their key."""
    for document in documents:
        if document.meta.status == "complete":
            continue
        folds = [fold for fold in document.section(2).folds if fold.decision == "cannot"]
        texts = [note.text for fold in folds for note in fold.notes] + [document.text(5, "escalation")]
        needs = (text.removeprefix("cannot: ") for text in texts if text.startswith("cannot: "))
        if need := next((need for need in needs if _LACKS.search(need)), ""):
            words = sorted(set(re.findall(r"[a-z]{4,}", need.lower())))
            key = f"need {' '.join(words)}"[:SHOWN_CHARS]
            yield key, Instance(document.meta.run, document.meta.id, need.strip())


def improvised(documents: Sequence[Document]) -> Iterator[tuple[str, Instance]]:
    """Improvised commands that succeeded, by a key with their shape; a replay improvises nothing."""
    from runtime.memory.episodes.attempts import answered

    for document in documents:
        if answered(document, document.meta.attempt, "plan", "fused", "turn")[0] in (RUNG, DIRECT):
            continue
        for step in document.steps.values():
            command = (step.args or {}).get("command")
            bash = step.tool == "bash" and step.state == "done" and isinstance(command, str)
            if bash and (pattern := shape(str(command))):
                where = f"{document.meta.id}:{step.n}"
                yield f"command {pattern}"[:SHOWN_CHARS], Instance(document.meta.run, where, str(command))


def shape(command: str) -> str:
    """The shape of a command; "" for one that is simply used, such as `ls` or `pytest -q`.

    `grep -c "x" a.txt | sort -n` and `grep -c y *.md | sort -n` have one shape. A command has a shape if it
    joins several programs or contains a program.
    """
    line, _, program_text = command.partition("<<")
    lexer = shlex.shlex(line.replace("\n", " ; "), posix=True, punctuation_chars=True)
    lexer.commenters, lexer.whitespace_split = "", True
    try:
        tokens = list(lexer)
    except ValueError:  # a quotation that does not end
        return ""
    commands: list[list[str]] = [[";"]]  # each begins with what joins it to the one before
    programs: list[str] = []
    words = _program_words(program_text.partition("\n")[2])
    program = ""  # that of the command at hand; "" before its name
    for token in tokens:
        parts = commands[-1]
        if token[:1] in ("|", ";", "&", "(", ")") or token == "<(":
            program = ""
            commands.append(["|" if token == "|" else ";"])
        elif not program and token in _KEYWORDS:
            parts.append(token)
            program = token if token in ("for", "case") else ""
        elif not program and not re.fullmatch(r"\w+=.*", token, re.S):
            program = token.rpartition("/")[2]
            if program not in _PREPARING:
                programs.append(program)
                parts.append(program)
        elif program in _INTERPRETERS and re.search(r"[\s(){};]", token):
            words += _program_words(token)
        elif program not in _PREPARING and re.match(r"-[A-Za-z-]", token):
            parts.append(re.sub(r"[^A-Za-z-].*", "", token))
        elif program in _SUBCOMMANDS and re.fullmatch(r"[a-z][a-z-]*", token) and parts[-1] == program:
            parts.append(token)
    works = len(programs) > 1 and not _SHOWING.issuperset(programs)
    if not works and len(words) < _LEAST_WORDS:
        return ""
    parts = [part for each in commands if len(each) > 1 for part in each][1:]
    suffix = f" ({' '.join(dict.fromkeys(words[:_PROGRAM_WORDS]))})" if words else ""
    return f"{' '.join(parts)}{suffix}"[:SHOWN_CHARS]


def _program_words(program: str) -> list[str]:
    """The words of a program, without its strings and numbers."""
    return re.findall(r"[A-Za-z_]{3,}", _STRINGS.sub(" ", program))
