"""DO: the arguments of a step, from a code block that the model writes."""

from __future__ import annotations

import calendar
import re
from collections.abc import Sequence
from typing import Any

from kernel.asking.responder import Interview, Question, Reply, ReplyForm
from kernel.document.model import Step
from runtime.models.micro.plans import LONG, PART, PROGRAM, QUERY
from runtime.models.micro.settings import SUFFIXES, changed, settings, view
from runtime.models.micro.shown import described, excerpt, related, show
from runtime.models.micro.task import Task, definitions

LANGUAGES = {"py": "python", "sh": "bash", "js": "javascript", "md": "markdown", "yml": "yaml", "htm": "html"}
"""The name of a code block's language where it is not the file's ending."""
PROSE = (".md", ".txt", ".rst")
"""Files that are written as plain text, since they may have code blocks themselves."""
MOST_SETTINGS = 40
"""Settings of one file that are shown; of more, those that share words with the task."""
PROGRAM_HEAD = 4
"""Lines of a data file that the writer of a program sees, besides a few that share words with the task."""
_BLOCK = re.compile(r"(`{3,})[\w+-]*[ \t]*\n(.*?)(?:\n\1|\Z)", re.S)


async def call(interview: Interview, task: Task, sample: int) -> dict[str, Any]:
    """The reply of DO for the current step."""
    step = interview.ask.document.planned[interview.ask.step]
    if step.tool == "csv":
        return await _query(interview, task, step, sample)
    if step.tool == "bash":
        return await _program(interview, task, step, sample)
    path, _, what = step.what.partition(": ")
    if step.tool == "edit" and what == PART:
        return await _part(interview, task, step, path, sample)
    return await _whole(interview, task, step, path, sample)


async def _query(interview: Interview, task: Task, step: Step, sample: int) -> dict[str, Any]:
    """A SELECT, written from the columns of the tables."""
    names = step.what.removeprefix(f"{QUERY} over ").split(", ")
    tables = [described(name, task.text_of(name)) for name in names]
    conditions = [f"Use in it: {', '.join(used)}"] if (used := conditions_of(task, tables)) else []
    form = ReplyForm("block", begins="```sql\nSELECT")
    asked = interview.instructions("query")
    reply = await interview.put(Question([task.text, *tables, *conditions], asked, form, 200, sample))
    query = qualified(_named(block(reply.text).strip().rstrip(";"), names), tables)
    return _call(reply, "csv", path=names[0], more=names[1:], query=query)


def _call(reply: Reply, tool: str, **args: Any) -> dict[str, Any]:
    """The call with what a reply has; none of a reply that was cut off."""
    if reply.truncated:
        return {"blocked": f"the reply was cut off after {reply.usage.completion_tokens} tokens"}
    return {"tool": tool, "args": args}


def _code(path: str) -> ReplyForm:
    """A code block in the language of a file."""
    language = path.rpartition(".")[2]
    return ReplyForm("block", begins=f"```{LANGUAGES.get(language, language)}\n")


def conditions_of(task: Task, tables: Sequence[str]) -> list[str]:
    """Values of the tables' columns, and months, that the task names: a query has to use them."""
    described_text = "\n".join(tables)
    used: list[str] = []
    if re.search(r"'\d{4}-\d\d", described_text):
        months = [name.lower() for name in calendar.month_name[1:]]
        for month, year in re.findall(rf"(?i)\b({'|'.join(months)}) (\d{{4}})\b", task.text):
            used.append(f"LIKE '{year}-{months.index(month.lower()) + 1:02}%'")
    for values in re.findall(r"\(text: (.*)\)", described_text):
        for value in re.findall(r"'([^']+)'", values):
            if re.search(rf"(?i)\b{re.escape(value)}\b", task.text):
                used.append(f"'{value}'")
    return list(dict.fromkeys(used))


def _named(query: str, paths: Sequence[str]) -> str:
    """The query with the names of tables where the model wrote paths of their files."""
    for path in paths:
        stem = path.rpartition("/")[2].rpartition(".")[0]
        without = path.rpartition(".")[0]
        for each in (path, path.rpartition("/")[2], without, without.replace("/", ".")):
            if each != stem:
                query = re.sub(rf'(?<![\w\'])["`]?{re.escape(each)}["`]?(?![\w\'])', stem, query)
    return query


def qualified(query: str, tables: Sequence[str]) -> str:
    """The query with the name of the first table before columns that two tables have."""
    names = [re.findall(r'^Table "(.*)"', table)[0] for table in tables]
    columns = [re.findall(r"^- (\w+) \(", table, re.M) for table in tables]
    shared = {column for column in columns[0] for other in columns[1:] if column in other}
    if not shared or not re.search(r"(?i)\bjoin\b", query):
        return query
    alias = re.search(
        rf"(?i)\b(?:from|join)\s+{re.escape(names[0])}\s+(?:as\s+)?(?!on\b|join\b|where\b|using\b|group\b)(\w+)",
        query,
    )
    name = alias[1] if alias else names[0]
    for column in shared:
        query = re.sub(rf"(?i)(?<![\w.\"'])({column})(?![\w\"'(])(?!\s*\.)", rf"{name}.\1", query)
    return re.sub(rf"(?i)(using\s*\(\s*){name}\.", r"\1", query)


async def _program(interview: Interview, task: Task, step: Step, sample: int) -> dict[str, Any]:
    """A Python program on standard input, so that no quoting can break it."""
    names = step.what.removeprefix(f"{PROGRAM} over ").split(", ") if " over " in step.what else []
    wanted = "answer-program" if names or step.what.endswith("prints the answer") else "program"
    if wanted == "answer-program" and not (task.files or step.needs):
        wanted = "calculation"
    shown = shown_sources(interview, task, step, head=PROGRAM_HEAD, chars=2_500)
    shown += [described(name, task.text_of(name)) for name in names]
    shown += [show(name, "\n".join(task.text_of(name).splitlines()[:3]), task.text) for name in names]
    listed = "" if shown or not task.files else f"Files:\n{chr(10).join(task.files[:40])}"
    begins = "```python\n"
    if wanted == "program" and not shown:
        begins += "from pathlib import Path\n\n" + (
            f'folder = Path("{task.folders[0]}")\n' if len(task.folders) == 1 else ""
        )
    about = [task.text, listed, *shown, _failed_before(interview)]
    form = ReplyForm("block", begins=begins)
    reply = await interview.put(Question(about, interview.instructions(wanted), form, 700, sample))
    return _call(reply, "bash", command="python3 -", stdin=block(reply.text))


async def _whole(interview: Interview, task: Task, step: Step, path: str, sample: int) -> dict[str, Any]:
    by_value = sample % 2 == 1 or len(task.text_of(path)) > LONG
    if by_value and (content := await _settings(interview, task, path, sample)):
        return {"tool": "write", "args": {"path": path, "content": content}}
    shown = shown_sources(interview, task, step)
    prose = path.endswith(PROSE)
    asked = interview.instructions("text" if prose else "file").replace("{path}", path)
    form = ReplyForm("text") if prose else _code(path)
    reply = await interview.put(Question([task.text, *shown], asked, form, 1_500, sample))
    return _call(reply, "write", path=path, content=unfenced(reply.text) if prose else block(reply.text))


async def _settings(interview: Interview, task: Task, path: str, sample: int) -> str:
    """A settings file with other values; "" if it is none, or if the model states no value that is there."""
    suffix = path.rpartition(".")[2]
    text = task.text_of(path) if suffix in SUFFIXES else ""
    listed = settings(text)
    if len(listed) > MOST_SETTINGS:
        lines = related([each.path + " " + each.value for each in listed], task.text, MOST_SETTINGS)
        listed = [listed[at] for at in lines]
    if len(listed) < 2:
        return ""
    about = [task.text, f"{path} has:\n{view(listed)}"]
    asked = interview.instructions("settings")
    reply = await interview.put(Question(about, asked, ReplyForm("text"), 200, sample))
    content = changed(text, listed, reply.text, suffix)
    return content if content != text else ""


async def _part(interview: Interview, task: Task, step: Step, path: str, sample: int) -> dict[str, Any]:
    """Rewrite only the function or the lines of a long file that the task is about."""
    text = task.text_of(path)
    old = await _concerned(interview, task, path, text)
    shown = f"A part of {path}:\n```\n{old}\n```"
    others = [each for each in shown_sources(interview, task, step) if not each.startswith(f"{path}:")]
    asked = interview.instructions("part")
    reply = await interview.put(Question([task.text, *others, shown], asked, _code(path), 900, sample))
    return _call(reply, "edit", path=path, old=old, new=block(reply.text).rstrip("\n"))


async def _concerned(interview: Interview, task: Task, path: str, text: str) -> str:
    """The function that the model chooses, or the lines around those that share words with the task."""
    lines = text.splitlines()
    parts = definitions(text) if path.endswith(".py") else []
    if parts:
        names = [part.name for part in parts][:30]
        named = [name for name in names if re.search(rf"\b{re.escape(name)}\b", task.text)]
        if len(named) != 1:
            asked = interview.instructions("which-function")
            about = [task.text, f"{path} has: {', '.join(names)}"]
            form = ReplyForm("choice", tuple(names))
            named = [(await interview.put(Question(about, asked, form, 12))).text]
        chosen = next(part for part in parts if part.name == named[0])
        return "\n".join(lines[chosen.lineno - 1 : chosen.end_lineno])
    places = related(lines, task.text, 3) or [0]
    low, high = max(places[0] - 6, 0), min(places[-1] + 7, len(lines))
    return "\n".join(lines[low : min(high, low + 60)])


def shown_sources(
    interview: Interview, task: Task, step: Step, *, head: int = 0, chars: int = 6_000
) -> list[str]:
    """The results of the steps that this one needs: files, pages, and what tests say."""
    shown: list[str] = []
    for need in step.needs:
        source = interview.ask.document.planned.get(need)
        result = interview.result(need)
        if source is None or not result:
            continue
        args = source.args or {}
        if source.tool == "bash":
            shown.append(f"The tests say:\n```\n{result[-900:]}\n```")
        else:
            name = str(args.get("path") or args.get("url"))
            lines = result.count("\n")
            text = excerpt(result, task.text, head=head, found=3) if head and lines > 12 else result
            title = f"{name} ({lines} lines)" if text != result else name
            shown.append(show(title, text, task.text, chars=chars))
    return shown


def _failed_before(interview: Interview) -> str:
    """What the last program of an earlier attempt failed with."""
    for number, step in sorted(interview.ask.document.steps.items(), reverse=True):
        if number <= interview.ask.document.meta.base and step.tool == "bash" and step.state == "failed":
            lines = [
                line for line in (step.result or "").splitlines() if line.strip() and "[exit" not in line
            ]
            return f"An earlier program failed: {lines[-1][:200]}" if lines else ""
    return ""


def block(text: str) -> str:
    """The first code block of a reply, else the reply without fences; it ends with a line break."""
    found = _BLOCK.search(text)
    return (found[2] if found else text.strip("` \n")).rstrip("\n") + "\n"


def unfenced(text: str) -> str:
    """A reply without a code block around all of it; it ends with a line break."""
    stripped = text.strip()
    found = re.fullmatch(r"(`{3,})[\w+-]*[ \t]*\n(.*)\n\1", stripped, re.S)
    return (found[2] if found else stripped).rstrip("\n") + "\n"
