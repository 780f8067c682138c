"""Exemplars: what an accepted loop teaches, its task and the steps that solved it.

Every word of a step must come from the task or from an earlier step's result. What came from the workspace as
it was then is not part of a procedure.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from kernel.asking.conversation import SHOWN
from kernel.asking.prompt import found_by_itself
from kernel.document.model import Document, Step
from kernel.document.references import SHELL, in_shell, references
from kernel.document.references import renumbered as with_numbers
from kernel.tools.tool import Tool
from runtime.memory.tasks import Refusal
from runtime.memory.turns import came_to_nothing
from runtime.secrets.redaction import redact
from runtime.text.sections import sections
from runtime.text.tokens import tokens

CALCULATING = frozenset({"calc"})
"""Tools for which names and nouns are only labels."""
LONGEST_TASK = 4_000
"""Characters; a longer task is a text that hardly comes twice."""
LONGEST_STEPS = 50_000
SHORTEST_RESULT, LONGEST_RESULT = 2, 2_000
"""Characters of a result that is looked for in later arguments; a shorter one could be there by chance."""
LONGEST_OUTPUT = 20_000
RECALL = "recall"
"""The tool that asks memory."""
NO_TOOLS: Mapping[str, Tool] = {}
TELLING = frozenset(
    re.findall(
        r"\w+",
        "a an the to in into onto on at of as by it its and then with for from this that please just also "
        "new file files folder text line lines word words content contents says saying called named "
        "write put save store add append create make",
    )
)
"""Words of a task about writing that say nothing about what is written."""
COMMANDS = frozenset({"command", "run", "script"})
"""Arguments and criteria that a shell reads."""
WRITTEN = COMMANDS | {"content", "new", "value", "text"}
"""Arguments whose text ends up in a file or in a program."""
_NUMBER = re.compile(r"(?<![\w.])\d+(?:,\d{3})*(?:\.\d+)?(?![\w.]*\d)")
_NAME = re.compile(r"(?<![\w-])[\w-]+(?:[./][\w-]+)+")
_WORD = re.compile(r"[^\W\d_]+")
_PIECE = re.compile(r"[^\W\d_]+|\d+(?:[.,]\d+)*|[^\w\s!-/:-@\[-`{-~]")
"""A word, a number, or a sign that is no punctuation."""
_QUOTED = re.compile(r"(\"[^\"]*\"|'[^']*')")
_PROCEDURE = re.compile(
    r"(?:^|[|;&]|\$\() *[a-z][\w.-]*(?=\s|$)|(?<=\s)(?:-[A-Za-z]|-\d+|--?[a-z-]{2,})(?=\s|$)"
)
"""A program or an option of a shell command."""
_REFERENCE = re.compile(r"\{\{.*?\}\}")


class Exemplar(BaseModel):
    """A task and the procedure that solved it, its steps numbered from 1."""

    model_config = ConfigDict(frozen=True)

    task: str
    steps: tuple[dict[str, Any], ...]
    success: tuple[dict[str, Any], ...] = ()
    output: str = ""  # results are references
    verified: bool = False  # some criterion failed before and held after
    made: bool = False  # a person said it in other words: only fit for the very same task
    choices: tuple[str, ...] = ()  # of its steps' arguments, those that have one of the values a tool offers


@cache
def reporting(systems: tuple[Path, ...]) -> frozenset[str]:
    """The words of an output that only report, from `memory/reports.md` in these system folders."""
    return frozenset(word for _, body in sections(systems, "reports.md") for word in _words(body))


def exemplar(
    document: Document, reports: Collection[str] = (), tools: Mapping[str, Tool] = NO_TOOLS
) -> Exemplar | Refusal:
    """What a finished loop teaches, or why it teaches nothing.

    `reports` are the words of `reporting`; `tools` may offer values of arguments to choose from.
    """
    meta, task = document.meta, document.text(1, "task")
    if why := _unfit(document, task):
        return Refusal(why)
    reworded = in_other_words(document)
    said = f"{task}\n{reworded}"
    last = [document.steps.get(n, step) for n, step in document.planned.items()]
    ended = [step for step in last if not came_to_nothing(step)]
    if not ended or any(step.state != "done" for step in ended):
        return Refusal("not every step of its last plan was done")
    if all(step.tool == RECALL for step in ended):
        return Refusal("it only asked memory, which may know something else the next time")
    numbers = {step.n: place for place, step in enumerate(ended, 1)}
    steps: list[dict[str, Any]] = []
    for step in ended:
        made = _step(step, document, said, ended, numbers)
        if isinstance(made, Refusal):
            return made
        steps.append(made)
    written = json.dumps(steps, ensure_ascii=False)
    if len(written) > LONGEST_STEPS:
        return Refusal(f"its steps hold more than {LONGEST_STEPS} characters")
    if redact(written) != written:
        return Refusal("its steps hold a text that looks like a secret")
    if seen := _seen_only(document, said, json.dumps([step["args"] for step in steps], ensure_ascii=False)):
        return Refusal(f"it used {seen}, which is in the workspace and not in the task")
    output, beside = _output(document.text(5, "result"), ended, numbers, said, reports)
    if beside and not any(step.evidence.get("touched") for step in ended):
        return Refusal(f"its output has {beside!r}, which is in no step's result and not in its task")
    return Exemplar(
        task=task,
        steps=tuple(steps),
        success=tuple(_placed(each, numbers) for each in _criteria(document)),
        output=f"{{{{ steps[{len(ended)}].result }}}}" if beside else output,
        verified=not meta.unverified,
        made=bool(reworded),
        choices=tuple(dict.fromkeys(each for step in steps for each in _choices(step, tools))),
    )


def _choices(step: Mapping[str, Any], tools: Mapping[str, Tool]) -> Iterator[str]:
    """The arguments of a step that have one of the values which its tool offers for them."""
    tool = tools.get(step["tool"])
    for name, value in step["args"].items():
        if tool and value in tool.args.get(name, {}).get("enum", ()):
            yield _argument(step, name)


def _argument(step: Mapping[str, Any], name: str) -> str:
    return f"{step.get('tool')}.{name}"


def in_other_words(document: Document) -> str:
    """What a person said when nobody could do a task, and the loop then tried to do instead; else ""."""
    answer = document.note(1, "answer")
    said = {(note.text, note.origin) for note in document.section(1).notes if note.key == "resolved task"}
    return answer.text if answer and (answer.text, answer.origin) in said else ""


def _unfit(document: Document, task: str) -> str:
    if document.meta.status != "complete":
        return f"it ended {document.meta.status}"
    if len(task) > LONGEST_TASK:
        return f"its task is longer than {LONGEST_TASK} characters"
    context = (note.source for note in document.section(1).notes if note.key == "context")
    if given := [source for source in context if not found_by_itself(source)]:
        return f"it was given {', '.join(given)[:200]} besides its task"
    if document.note(1, "guidance") or (document.note(1, "answer") and not in_other_words(document)):
        return "a person answered or guided it"
    return ""


def _step(
    step: Step, document: Document, task: str, ended: Sequence[Step], numbers: Mapping[int, int]
) -> dict[str, Any] | Refusal:
    """A step as it was planned, its arguments with references where they repeat an earlier result."""
    if not step.tool or step.share is not None:
        return Refusal(f"step {step.n} was a loop of its own")
    planned = document.planned[step.n]
    if planned.args is not None:
        args = dict(planned.args)
    else:
        args = {name: _referring(value, ended, step) for name, value in (step.args or {}).items()}
        if found := next((text for text in _texts(args) if text not in task), ""):
            return Refusal(f"step {step.n} was given {found[:80]!r} after results had been seen")
    if missing := [n for n in references(args) if n not in numbers]:
        return Refusal(f"step {step.n} used step {missing[0]} of an earlier attempt")
    needs = sorted(numbers[need] for need in planned.needs if need in numbers)
    return {"tool": step.tool, "args": with_numbers(args, lambda _, n: numbers[n]), "needs": needs}


def _referring(value: Any, ended: Sequence[Step], now: Step) -> Any:
    for step in ended:
        result = step.result or ""
        if step.n < now.n and SHORTEST_RESULT <= len(result) <= LONGEST_RESULT and value == result:
            return f"{{{{ steps[{step.n}].result }}}}"
    return value


def _texts(value: Any) -> Iterator[str]:
    """All texts and numbers inside a value, without references."""
    if isinstance(value, Mapping | list | tuple):
        for each in value.values() if isinstance(value, Mapping) else value:
            yield from _texts(each)
    elif value is not None and not isinstance(value, bool):
        yield _REFERENCE.sub("", str(value)).strip()


def _criteria(document: Document) -> Iterator[dict[str, Any]]:
    for line in document.text(2, "success criteria").splitlines():
        try:
            value = json.loads(line)
        except ValueError:
            value = line
        yield value if isinstance(value, dict) else {"judge": line}


def _placed(criterion: Mapping[str, Any], numbers: Mapping[int, int]) -> dict[str, Any]:
    def renumbered(value: Any) -> Any:
        return with_numbers(value, lambda _, n: numbers[n])

    made: dict[str, Any] = renumbered(criterion)
    if "keep" in made:  # given beside an answer; of a plan it is a command like others
        made["run"] = made.pop("keep")
    if isinstance(made.get("run"), str):
        made["run"] = renumbered(in_shell(made["run"]))[SHELL]
    if isinstance(made.get("step"), int):
        made["step"] = numbers.get(made["step"], made["step"])
    return made


def _words(text: str) -> set[str]:
    return {word.lower() for word in _WORD.findall(text)}


def _seen_only(document: Document, task: str, args: str) -> str:
    """A file name that the plan has from the workspace or an earlier attempt, not from the task."""
    notes = document.section(1).notes
    heard = [n.text for n in notes if n.key == SHOWN or (n.key == "context" and found_by_itself(n.source))]
    heard += [note.text for fold in document.section(2).folds for note in fold.notes]
    heard += [step.result or "" for n, step in document.steps.items() if n not in document.planned]
    known = {name for text in heard for name in _NAME.findall(text)}
    return min((known & {*_NAME.findall(args)}).difference(_NAME.findall(task)), default="")


def only_for(exemplar: Exemplar) -> str:
    """Why an exemplar is only fit for the very same task; "" if it is fit for variations."""
    if exemplar.made:
        return "its steps hold what a person said for another task"
    if own := own_text(exemplar.task, exemplar.steps, exemplar.choices):
        return f"its steps hold {own!r}, which was made for another task"
    left = _unused_word(exemplar.task, exemplar.steps)
    return f"its steps write a text, and {left!r} of the task may have decided which" if left else ""


def _unused_word(task: str, steps: Sequence[Mapping[str, Any]]) -> str:
    """A word of the task that no step has, where a step writes a text that the task does not quote.

    The text is what a model made of that word: `root of run` is `run`, and `root of ran` is not `ran`.
    """
    quoted = {hit[0][1:-1] for hit in _QUOTED.finditer(task)}
    texts = [
        value
        for step in steps
        for key, value in _given(step.get("args") or {})
        if key in WRITTEN and _REFERENCE.sub("", value).strip() and value.strip() not in quoted
    ]
    used = _words(json.dumps(steps, ensure_ascii=False))
    words = [word.lower() for word in _WORD.findall(task)]
    return next((word for word in words[1:] if word not in used | TELLING), "") if texts else ""


def own_text(task: str, steps: Sequence[Mapping[str, Any]], choices: Collection[str] = ()) -> str:
    """The first text in an argument that is neither in the task nor a result: "" if there is none.

    The planner made it for this task, so that no other task may be given it. A calculation has only numbers
    and functions, a shell command has its programs and options, and an argument may have one of the values
    that its tool offers: these are the procedure, not its content.
    """
    known = {word.lower() for word in _PIECE.findall(task)}
    found = (
        piece
        for step in steps
        if step.get("tool") not in CALCULATING
        for key, value in _given(step.get("args") or {})
        if _argument(step, key) not in choices
        for piece in _pieces(_REFERENCE.sub(" ", value), key in COMMANDS)
        if piece.lower() not in known
    )
    return next(found, "")


def _given(value: Any, key: str = "") -> Iterator[tuple[str, str]]:
    """All texts and numbers of the arguments, also the names inside an object, each with its argument."""
    if isinstance(value, Mapping):
        for name, each in value.items():
            yield from ((key, str(name)),) if key else ()
            yield from _given(each, key or str(name))
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _given(each, key)
    elif value is not None and not isinstance(value, bool):
        yield key, str(value)


def _pieces(text: str, command: bool) -> Iterator[str]:
    """The words, numbers and signs of an argument; marks count where it has nothing else."""
    if command:
        parts = _QUOTED.split(text)
        text = " ".join([*(_PROCEDURE.sub(" ", part) for part in parts[::2]), *parts[1::2]])
    yield from _PIECE.findall(text) or text.split()


def _output(
    text: str, ended: Sequence[Step], numbers: Mapping[int, int], task: str, reports: Collection[str]
) -> tuple[str, str]:
    """The output with results as references, and the first number or word of it that has no known origin."""
    for step in reversed(ended):
        if (step.result or "").strip() == text.strip() != "":
            return f"{{{{ steps[{numbers[step.n]}].result }}}}", ""
    if len(text) > LONGEST_OUTPUT:
        return text, f"{text[:40]}…"
    made = text
    for step in reversed(ended):
        result = (step.result or "").strip()
        if result and len(result) <= LONGEST_RESULT:
            reference = f"{{{{ steps[{numbers[step.n]}].result }}}}"
            pattern = rf"(?<![\w.]){re.escape(result)}(?![\w]|\.\d)"
            made = reference.join(re.split(pattern, made))
    rest = _REFERENCE.sub("", made)
    given = {token.value for token in tokens(task) if token.kind == "number"}
    for hit in _NUMBER.finditer(rest):
        if next((token.value for token in tokens(hit[0]) if token.kind == "number"), None) not in given:
            return made, hit[0]
    known = _words(task)
    beside = (word for word in _WORD.findall(rest) if word.lower() not in known)
    return made, next((word for word in beside if word.lower() not in reports), "")
