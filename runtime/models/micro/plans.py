"""PLAN: code makes the steps and criteria of a task from its kind, and asks the model where it cannot."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from typing import Any

from kernel.asking.responder import Interview, Question, ReplyForm
from runtime.models.micro.kinds import Kinds, kind_of
from runtime.models.micro.remembered import about_own_world, offered, told
from runtime.models.micro.settings import SUFFIXES as SETTINGS
from runtime.models.micro.shown import described
from runtime.models.micro.task import Task, definitions
from runtime.reflexes.known import SHOWN
from runtime.text.grounding import ungrounded

RECALL = "recall"
PROGRAM = "a program"
QUERY = "a query"
"""The beginning of what a step with a program or a query of the model does."""
ALONE = "one program alone proves nothing"
"""The beginning of what is learned from an outcome that no other program has had yet."""
WHOLE = "the whole file"
PART = "the part that the task is about"
LONG = 4_000
"""Characters of a file above which only a part of it is written anew."""
MANY = 4
"""Orders from which on a task is divided into loops of their own."""
_EXAMPLE = re.compile(
    r"`([^`\n]+)`[^`.\n]{0,30}?\b(?:prints?|should print|outputs?|shows?|gives?|returns?)\b"
    r"[^\w`\n]*`?([^\s`,;]+)`?"
)
_COMMAND = re.compile(r"[`(]((?:python3?|bash|node) [\w./-]+\.(?:py|sh|js)(?: [\w./-]+)*)[`)]")
PROOF = "test "
"""The beginning of a criterion that compares what a program prints with what the task says."""
TABLES = (".csv", ".tsv", ".json")
PROSE = (".md", ".txt", ".rst")
"""Files that are written as plain text, since they may have code blocks themselves."""
_DATA = (".csv", ".tsv", ".json", ".jsonl", ".log", ".txt", ".yaml", ".yml")


async def plan(interview: Interview, task: Task, kinds: Kinds, sample: int) -> dict[str, Any]:
    """The reply of PLAN for the attempt with this number, from 0."""
    parts = kinds.parts(task.text) if sample == 0 else []
    if len(parts) >= MANY:
        return _splitting(parts)
    kind = await kind_of(interview, task, kinds)
    if kind == "change":
        return await _changing(interview, task, sample) or _running(task)
    if kind == "write":
        return _writing(task, kinds)
    if kind == "arrange":
        return _running(task)
    return await _answering(interview, task, kinds, sample)


# ---- the plans -------------------------------------------------------------------------------------------


def _splitting(parts: Sequence[str]) -> dict[str, Any]:
    """A loop of its own for each part, one after the other."""
    steps = [{"subtask": part} for part in parts]
    return _reply(f"{len(parts)} parts, one after the other", steps, [{"step": len(parts)}])


async def _answering(interview: Interview, task: Task, kinds: Kinds, sample: int) -> dict[str, Any]:
    """A question: answered from memory, from knowledge, by reading files, or by a program."""
    document = interview.ask.document
    if not task.named and not task.urls and about_own_world(task, document, kinds):
        return _remembering(task)
    files = task.named or _only(task)
    if not files and not task.urls:
        if sample == 0 and (known := await _known(interview, task)):
            return {"answer": known}
        return _computing(task, [])
    tables = [name for name in files if name.endswith(TABLES) and described(name, task.text_of(name))]
    if tables and len(tables) == len(files):
        return _querying(tables) if sample % 2 == 0 else _calculating(tables)
    data = any(name.endswith(_DATA) for name in files)
    if data and (kinds.says(task.words, "compute") or sample):
        return _computing(task, files)
    steps = _sources(task, files)
    success = [{"step": at} for at in range(1, len(steps) + 1)]
    return _reply("read, then answer", steps, success)


async def _known(interview: Interview, task: Task) -> str:
    """An answer from the model's knowledge; "" if it has numbers that have to be computed."""
    about = [*told(offered(interview.ask.document)), task.text]
    reply = await interview.put(Question(about, interview.instructions("answer"), max_tokens=120))
    text = reply.text.strip()
    computed = re.search(r"\d", task.text) and ungrounded(text, [task.text])
    return "" if computed else text


def _remembering(task: Task) -> dict[str, Any]:
    """What memory has: CHECK asks what it tells. No model knows the answer, and no program finds it."""
    step = {"tool": RECALL, "args": {"query": task.text, "limit": SHOWN}, "needs": []}
    return _reply("answer from what memory has", [step], [{"step": 1}])


def _computing(task: Task, files: Sequence[str]) -> dict[str, Any]:
    """A program that prints the answer, written from what the files look like."""
    steps = _sources(task, files)
    steps.append({"tool": "bash", "what": f"{PROGRAM} that prints the answer", "needs": _all(steps)})
    return _reply("compute it with a program", steps, [{"step": len(steps)}])


def _querying(tables: Sequence[str]) -> dict[str, Any]:
    """A SELECT over the tables, which a small model writes better than a program."""
    step = {"tool": "csv", "what": f"{QUERY} over {', '.join(tables)}", "needs": []}
    return _reply("query the tables", [step], [{"step": 1, "has": r"\n."}])


def _calculating(tables: Sequence[str]) -> dict[str, Any]:
    """A program over the same tables: another form, which does not make the same mistakes as a query."""
    step = {"tool": "bash", "what": f"{PROGRAM} over {', '.join(tables)}", "needs": []}
    return _reply("compute it with a program", [step], [{"step": 1}])


def _writing(task: Task, kinds: Kinds) -> dict[str, Any]:
    """New files: programs and texts are written whole; what comes from long files, by a program."""
    files = task.named[:4]
    steps = _sources(task, files)
    needs = _all(steps)
    code = [name for name in task.new if name.endswith((".py", ".sh", ".js"))]
    long = any(len(task.text_of(name)) > LONG for name in files)
    if files and not code and (long or kinds.derives(task.prose)):
        steps.append({"tool": "bash", "what": f"{PROGRAM} that does the task", "needs": needs})
    else:
        steps += [{"tool": "write", "what": f"{name}: {WHOLE}", "needs": needs} for name in task.new]
    success: list[dict[str, Any]] = []
    for name in task.new:
        success += [{"file": name}, {"check": "valid", "file": name}]
    success += _examples(task)
    return _reply("write the files", steps, success)


def _examples(task: Task) -> list[dict[str, Any]]:
    """Commands that the task names: with the output that it states, else only that they succeed."""
    found: list[dict[str, Any]] = []
    for command, printed in _EXAMPLE.findall(task.text):
        if printed := printed.strip("."):
            found.append({"run": f'{PROOF}"$({_runnable(command)})" = {shlex.quote(printed)}'})
    if not found:
        for command in dict.fromkeys(_COMMAND.findall(task.text)):
            words = command.split()
            if all(word in task.files for word in words[2:] if "." in word):
                found.append({"run": f"{_runnable(command)} > /dev/null"})
    return found


def _runnable(command: str) -> str:
    return re.sub(r"^python ", "python3 ", command.strip())


async def _changing(interview: Interview, task: Task, sample: int) -> dict[str, Any] | None:
    """Files that exist: the target is written anew, or a part of it; a named test decides."""
    tests = task.tests
    targets = [name for name in task.named if name not in tests]
    if tests and len(targets) < 2:  # the cause may be in another module than it seems
        imported = [name for test in tests for name in task.imported(test)]
        suspects = list(dict.fromkeys([*targets, *imported]))
        targets = suspects[max(sample - 1, 0) % len(suspects) :][:1] if suspects else []
    targets = targets or _only(task)
    exact = [name for name in targets if name.rpartition("/")[2] in task.text]
    if len(targets) > 1 and len(exact) < len(targets):
        targets = exact or [await _chosen(interview, task, targets)]
    if not targets or len(targets) > 3:
        return None
    steps = _sources(task, [*targets, *tests[:1]])
    success: list[dict[str, Any]] = []
    if tests:
        command = f"python3 -m pytest -q --no-header --tb=short -p no:cacheprovider {shlex.join(tests)}"
        steps.append({"tool": "bash", "args": {"command": f"{command}; true"}, "needs": []})
        success += [{"run": command}, *({"same": name} for name in tests)]
    needs = _all(steps)
    for name in targets:
        text = task.text_of(name)
        by_function = bool(tests) and sample % 2 == 0 and len(definitions(text)) > 1
        part = (len(text) > LONG or by_function) and not name.endswith(SETTINGS)
        steps.append(
            {
                "tool": "edit" if part else "write",
                "what": f"{name}: {PART if part else WHOLE}",
                "needs": needs,
            }
        )
    success += [{"check": "valid", "file": name} for name in targets]
    success += [{"check": "kept", "file": name} for name in targets if name.endswith(".py")]
    success += [{"check": "changed", "file": name} for name in targets]
    return _reply(f"change {', '.join(targets)}", steps, success)


async def _chosen(interview: Interview, task: Task, names: Sequence[str]) -> str:
    """The file that the model thinks has to change."""
    options = tuple(names[:12])
    about = [task.text, f"Files: {', '.join(options)}"]
    asked = interview.instructions("which-file")
    return (await interview.put(Question(about, asked, ReplyForm("choice", options), 20))).text


def _running(task: Task) -> dict[str, Any]:
    """A program that does the task in the folder."""
    steps = _sources(task, task.named[:2])
    steps.append({"tool": "bash", "what": f"{PROGRAM} that does the task", "needs": _all(steps)})
    return _reply("do it with a program", steps, [{"check": "moved"}])


def _sources(task: Task, files: Sequence[str]) -> list[dict[str, Any]]:
    """The steps that read what the task is about."""
    pages = [{"tool": "fetch", "args": {"url": url}, "needs": []} for url in task.urls[:3]]
    return [*pages, *({"tool": "read", "args": {"path": name}, "needs": []} for name in files)]


def _all(steps: Sequence[object]) -> list[int]:
    return list(range(1, len(steps) + 1))


def _only(task: Task) -> list[str]:
    """The only file of the folder, which a task means that names none."""
    return list(task.files) if len(task.files) == 1 else []


def _reply(approach: str, steps: list[dict[str, Any]], success: list[dict[str, Any]]) -> dict[str, Any]:
    return {"approach": approach, "confidence": "medium", "steps": steps, "success": success}
