"""The reader of the stream of corrections: a capable model in code, that sees nothing but the prompt.

It can read code: when a faulty line is in sight it has ideas of how to correct it, and does not know which
one helps. It cannot guess how a project is checked, nor in which file a fault is. What a prompt tells about
earlier work it reads as plainly as it reads anything: a line that shares words with the task may name a file,
a command, and a text with what took its place. It knows nothing else of how such lines are written. These
rules are older than the lines that they are measured on.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any

from bench.work.coding_jobs import CodingJob, Correction
from kernel.asking.messages import prompt_text, text_of
from kernel.asking.responder import Ask

GUIDE = "CONTRIBUTING.md"
"""What one reads first in a project whose habits one does not know."""
READS = 2
"""Files that are read in one turn."""
_SECTION = re.compile(r"^## (.*)$", re.M)
_PATH = re.compile(r"[\w-]+(?:/[\w.-]+)*\.(?:py|tmpl|md|txt|json)\b")
_COMMAND = re.compile(r"\bpython3 [\w./-]+\.py(?: [\w-]+)*")
_INSTEAD = re.compile(
    r"`([^`]+)` *(?:→|->|became|with|by) *`([^`]+)`|\"old\": \"(.+?)\", \"new\": \"(.+?)\"[,}]"
)
_FAILED = re.compile(r"[^.;,(]*\b(?:failed|wrong|did not help|not)\b[^.;)]*")
_QUOTED = re.compile(r"`([^`]+)`")
_WORD = re.compile(r"[a-z]{4,}")
_GENERAL = frozenset(
    _WORD.findall("code correct file files fixed from have into some somebody still than that them this with")
)
COMMON = 3
"""Words that a line shares with a task that it bears on."""


@dataclass
class Hints:
    """What the lines about tasks like this one say."""

    files: list[str] = field(default_factory=list[str])
    command: str = ""
    instead: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    failed: list[str] = field(default_factory=list[str])


class CodingReader:
    """Answers the asks about one job."""

    def __init__(self, job: CodingJob) -> None:
        self.job = job

    def __call__(self, ask: Ask) -> str:
        """The reply to an ask."""
        said, seen = _parted(prompt_text(ask))
        hints = hints_in(said, self.job.task)
        sight = _Sight(seen, _results(ask))
        if ask.phase == "check":
            reply = _verdict(ask, sight)
        else:
            reply = self._turn(sight, hints) if sight.results else self._first(sight, hints)
        return json.dumps(reply)

    def _first(self, sight: _Sight, hints: Hints) -> dict[str, Any]:
        """First looks, before anything is known but the folder."""
        looks = [] if hints.command else [_read(GUIDE)]
        looks += map(_read, self._files(sight, hints)[:READS])
        return {"calls": looks} if looks else self._turn(sight, hints)

    def _turn(self, sight: _Sight, hints: Hints) -> dict[str, Any]:
        """The next calls: correct what is in sight, else look on."""
        if sight.good:
            return _done(sight.command or hints.command)
        command = sight.command or hints.command
        if not command:
            return (
                {"calls": [_read(GUIDE)]} if GUIDE not in sight.read else {"question": "How is it checked?"}
            )
        ideas = [each for each in _ranked(self.job.ideas, hints) if sight.shows(each)]
        if ideas:
            edit = {"path": ideas[0].path, "old": ideas[0].old, "new": ideas[0].new}
            calls = [*sight.taken_back(ideas[0].path), {"tool": "edit", "args": edit}, _bash(command)]
            return {"calls": [*calls, *_done(command)["calls"]]}
        unread = [path for path in self._files(sight, hints) if path not in sight.read][:READS]
        calls = [] if sight.checked else [_bash(f"{command}; true")]
        calls += map(_read, unread)
        return {"calls": calls} if calls else {"question": "Where is the fault?"}

    def _files(self, sight: _Sight, hints: Hints) -> list[str]:
        """The files to read, the most promising first.

        Those that hints name, here or with the same name in this part of the project; those that errors and
        imports name; those named as one that was read; those with words of the task in their path.
        """
        task = _stems(self.job.task)
        words = {path: len(_stems(path) & task) for path in sight.listed}
        here = sorted((path for path in sight.listed if words[path]), key=lambda path: -words[path])
        names = [PurePath(name).name for name in hints.files]
        hinted = sorted(
            (path for path in here if PurePath(path).name in names),
            key=lambda p: names.index(PurePath(p).name),
        )
        named = [path for path in sight.named if path in sight.listed]
        read = {str(PurePath(path).with_suffix("")) for path in sight.read}
        beside = [path for path in sight.listed if str(PurePath(path).with_suffix("")) in read]
        return [path for path in dict.fromkeys([*hinted, *named, *beside, *here]) if path not in sight.read]


class _Sight:
    """What of a prompt is fact: the listing of the folder, and the results of calls."""

    def __init__(self, seen: str, results: str) -> None:
        listing = seen.partition("\n## Folder\n")[2].partition("\n## ")[0]
        self.listed = [path for path in _PATH.findall(listing) if path.endswith((".py", ".tmpl"))]
        self.results = results
        self.read = set(re.findall(r'read \{"path": "([^"]+)"', self.results))
        last = max(self.results.rfind('edit {"path"'), self.results.rfind('bash {"command"'))
        self.checked = 'bash {"command"' in self.results
        self.good = self.checked and bool(re.search(r"^OK$", self.results[last:], re.M))
        self.command = next(iter(_COMMAND.findall(self.results)), "")
        imports = re.findall(r"from ([\w.]+) import", self.results)
        modules = [f"{name.replace('.', '/')}.py" for name in imports]
        errors: list[str] = re.findall(r'File "(?:[^"]*?/)?([\w-]+/[\w-]+\.py)"', self.results)
        self.named = list(dict.fromkeys([*reversed(modules), *reversed(errors)]))

    def shows(self, idea: Correction) -> bool:
        """Whether the faulty line was read, and this correction of it was not tried."""
        tried = f'"path": "{idea.path}", "old": {json.dumps(idea.old)}, "new": {json.dumps(idea.new)}'
        return idea.path in self.read and idea.old in self.results and tried not in self.results

    def taken_back(self, path: str) -> list[dict[str, Any]]:
        """The edit that undoes the last one of a file, which did not help."""
        made = [json.loads(args) for args in re.findall(r"^edit (\{.*\})$", self.results, re.M)]
        last = [args for args in made if args["path"] == path][-1:]
        return [
            {"tool": "edit", "args": {"path": path, "old": args["new"], "new": args["old"]}} for args in last
        ]


def hints_in(text: str, task: str) -> Hints:
    """What the lines of a text that bear on a task say: files, a command, what replaced what, what failed."""
    hints = Hints()
    for line in text.splitlines():
        if len(_stems(line) & _stems(task)) < COMMON:
            continue
        for hit in _INSTEAD.finditer(line):
            one, other, old, new = (hit[n] or "" for n in range(1, 5))
            hints.instead.append((one or old, other or new))
        hints.failed += [text for part in _FAILED.findall(line) for text in _QUOTED.findall(part)]
        hints.command = hints.command or next(iter(_COMMAND.findall(line)), "")
        rest = _COMMAND.sub("", line)
        hints.files += [path for path in _PATH.findall(rest) if path not in hints.files]
    return hints


def _ranked(ideas: Iterable[Correction], hints: Hints) -> list[Correction]:
    """The ideas in their order; those first that a hint speaks for, those last that it warns of."""

    def promise(idea: Correction) -> int:
        like = any(_same(old, idea.old) and _same(new, idea.new) for old, new in hints.instead)
        named = any(PurePath(name).name == PurePath(idea.path).name for name in hints.files)
        return 2 * like + named - 2 * any(_same(text, idea.new) for text in hints.failed)

    return sorted(ideas, key=promise, reverse=True)


def _same(said: str, text: str) -> bool:
    """Whether one of two pieces of code is within the other."""
    said = said.strip("… ").replace('\\"', '"')
    return len(said) > 3 and (said in text or text in said)


def _parted(prompt: str) -> tuple[str, str]:
    """What a prompt tells about earlier work, and everything else, which is about this task."""
    parts = _SECTION.split(prompt)
    told, other = "", parts[0]
    for title, text in zip(parts[1::2], parts[2::2], strict=False):
        if "memory" in title:
            told += text
        else:
            other += f"\n## {title}{text}"
    return told, other


def _results(ask: Ask) -> str:
    """What an ask shows of the calls so far, with their results."""
    return "\n".join(map(text_of, ask.messages[2:]))


def _done(command: str) -> dict[str, Any]:
    """The end of a job, with the command that shows it."""
    args = {"answer": "It is corrected, and the checks hold.", "checks": [command]}
    return {"calls": [{"tool": "done", "args": args}]}


def _verdict(ask: Ask, sight: _Sight) -> dict[str, Any]:
    if sight.good or re.search(r"^OK$|\\nOK", prompt_text(ask), re.M):
        return {"validation": "pass", "issues": [], "decision": "ACCEPT", "output": "It is corrected."}
    fail = {"validation": "fail", "issues": ["the checks do not hold"], "decision": "RETRY", "output": ""}
    return {**fail, "learned": "the checks do not hold yet"}


def _read(path: str) -> Mapping[str, Any]:
    return {"tool": "read", "args": {"path": path}}


def _bash(command: str) -> Mapping[str, Any]:
    return {"tool": "bash", "args": {"command": command}}


def _words(text: str) -> set[str]:
    return set(_WORD.findall(text.lower())) - _GENERAL


def _stems(text: str) -> set[str]:
    return {word[:4] for word in _words(text)}
