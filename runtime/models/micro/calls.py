"""DO: the arguments of a step, from a code block that the model writes."""

from __future__ import annotations

import calendar
import re
from collections.abc import Sequence
from typing import Any

from kernel.asking.responder import Interview, Question, Reply, ReplyForm
from kernel.document.model import Step
from runtime.models.micro.opening import continued, opening
from runtime.models.micro.plans import ALONE, LONG, PART, PROGRAM, PROSE, QUERY, TABLES
from runtime.models.micro.settings import SUFFIXES, changed, settings, view
from runtime.models.micro.shown import described, excerpt, related, show
from runtime.models.micro.task import Task, definitions

LANGUAGES = {"py": "python", "sh": "bash", "js": "javascript", "md": "markdown", "yml": "yaml", "htm": "html"}
"""The name of a code block's language where it is not the file's ending."""
MOST_SETTINGS = 40
"""Settings of one file that are shown; of more, those that share words with the task."""
PROGRAM_HEAD = 4
"""Lines of a data file that the writer of a program sees, besides a few that share words with the task."""
MOST_FAILURES = 900
"""Characters of a report of tests that are shown."""
MOST_LEARNED = 300
"""Characters of what was wrong with an attempt that the next one sees."""
_BLOCK = re.compile(r"(?<!`)(`{3,}+)[\w+-]*[ \t]*\n(.*?)(?:\n\1|\Z)", re.S)


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
    """The rest of a program that code begins; it runs on standard input, so that no quoting can break it."""
    named = step.what.removeprefix(f"{PROGRAM} over ").split(", ") if " over " in step.what else []
    answers = bool(named) or step.what.endswith("prints the answer")
    names = named or [name for name in _read_by(interview, step) if name in task.files]
    begun = opening(task, names, numeric=answers)
    wanted = "calculation"
    if task.files or step.needs:
        wanted = "answer-program" if answers else "program"
    shown = shown_sources(interview, task, step, head=PROGRAM_HEAD, chars=2_500, tables=False)
    about = [task.text, *shown, _failed_before(interview), f"The program begins:\n```python\n{begun}```"]
    form = ReplyForm("block", begins=f"```python\n{begun}")
    reply = await interview.put(Question(about, interview.instructions(wanted), form, 500, sample))
    return _call(reply, "bash", command="python3 -", stdin=continued(begun, block(reply.text)))


def _read_by(interview: Interview, step: Step) -> list[str]:
    """The files that the steps read which a step needs."""
    planned = interview.ask.document.planned
    sources = (planned[need] for need in step.needs if need in planned)
    return [str((each.args or {}).get("path")) for each in sources if each.tool == "read"]


async def _whole(interview: Interview, task: Task, step: Step, path: str, sample: int) -> dict[str, Any]:
    by_value = sample % 2 == 0 or len(task.text_of(path)) > LONG
    if by_value and (content := await _settings(interview, task, path, sample)):
        return {"tool": "write", "args": {"path": path, "content": content}}
    prose = path.endswith(PROSE)
    sources = shown_sources(interview, task, step)
    facts = [f"Mention: {', '.join(task.facts)}"] if prose and not sources and task.facts else []
    shown = [*sources, *facts, _failed_before(interview)]
    asked = interview.instructions("text" if prose else "file").replace("{path}", path)
    form = ReplyForm("text", begins=_heading(path, task.text_of(path))) if prose else _code(path)
    reply = await interview.put(Question([task.text, *shown], asked, form, 1_500, sample))
    return _call(reply, "write", path=path, content=unfenced(reply.text) if prose else block(reply.text))


def _heading(path: str, text: str) -> str:
    """How a text begins, so that nothing is said about it first."""
    if not path.endswith(".md"):
        return ""
    heading = re.match(r"# .*\n+", text)
    return heading[0] if heading else "" if text else "# "


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
    others = [each for each in shown_sources(interview, task, step) if not each.startswith(f"{path}:")]
    old = await _concerned(interview, task, path, text, "\n".join([task.text, *others]))
    shown = f"A part of {path}:\n```\n{old}\n```"
    asked = interview.instructions("part")
    about = [task.text, *others, shown, _failed_before(interview)]
    reply = await interview.put(Question(about, asked, _code(path), 900, sample))
    return _call(reply, "edit", path=path, old=old, new=block(reply.text).rstrip("\n"))


async def _concerned(interview: Interview, task: Task, path: str, text: str, said: str) -> str:
    """The function that alone is `said`, or that the model chooses; else the lines near words of the task."""
    lines = text.splitlines()
    parts = definitions(text) if path.endswith(".py") else []
    if parts:
        names = [part.name for part in parts][:30]
        named = [name for name in names if re.search(rf"\b{re.escape(name)}\b", said)]
        if len(named) != 1:
            asked = interview.instructions("which-function")
            about = [said, f"{path} has: {', '.join(names)}"]
            form = ReplyForm("choice", tuple(names))
            named = [(await interview.put(Question(about, asked, form, 12))).text]
        chosen = next(part for part in parts if part.name == named[0])
        return "\n".join(lines[chosen.lineno - 1 : chosen.end_lineno])
    places = related(lines, task.text, 3) or [0]
    low, high = max(places[0] - 6, 0), min(places[-1] + 7, len(lines))
    return "\n".join(lines[low : min(high, low + 60)])


def shown_sources(
    interview: Interview,
    task: Task,
    step: Step,
    *,
    head: int = 0,
    chars: int = 6_000,
    tables: bool = True,
) -> list[str]:
    """The results of the steps that this one needs: files, with or without tables, pages, what tests say."""
    shown: list[str] = []
    for need in step.needs:
        source = interview.ask.document.planned.get(need)
        result = interview.result(need)
        if source is None or not result:
            continue
        args = source.args or {}
        if source.tool == "bash":
            shown.append(f"The tests say:\n```\n{failures(result)}\n```")
        else:
            name = str(args.get("path") or args.get("url"))
            if not tables and name.endswith(TABLES):
                continue
            lines = result.count("\n")
            text = excerpt(result, task.text, head=head, found=3) if head and lines > 12 else result
            title = f"{name} ({lines} lines)" if text != result else name
            shown.append(show(title, text, task.text, chars=chars))
    return shown


def failures(report: str) -> str:
    """What pytest says of failing tests, without the rest of its report."""
    lines = [line for line in report.splitlines() if re.match(r"E  |>  |\S+:\d+: in |    \S", line)]
    return "\n".join(lines)[:MOST_FAILURES] or report[-MOST_FAILURES:]


def _failed_before(interview: Interview) -> str:
    """What was wrong with the attempt before."""
    folds = interview.ask.document.section(2).folds
    learned = [note.text for fold in folds[-1:] for note in fold.notes if note.key == "learned"]
    wrong = [each for each in learned if not each.startswith(ALONE)]
    return f"An earlier try was wrong: {wrong[0][-MOST_LEARNED:]}" if wrong else ""


def block(text: str) -> str:
    """The first code block of a reply, else the reply without fences; it ends with a line break."""
    found = _BLOCK.search(text)
    return (found[2] if found else text.strip("` \n")).rstrip("\n") + "\n"


def unfenced(text: str) -> str:
    """A reply without a code block around all of it, or announced by a line; it ends with a line break."""
    stripped = text.strip()
    found = re.fullmatch(r"(?:[^\n]*:\s*\n)?(`{3,})[\w+-]*[ \t]*\n(.*)\n\1", stripped, re.S)
    return (found[2] if found else stripped).rstrip("\n") + "\n"
