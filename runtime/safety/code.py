"""Code inside a command: shell is followed, Python and SQL have their own modules.

Of code in other languages only the literal texts are judged. Code that may have another effect is a `hidden`
act with the tag `unread`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from runtime.safety import python, sql
from runtime.safety.acts import ANY, ANYTHING, INSIDE, UNKNOWN, Act, Stream, has_unknown

if TYPE_CHECKING:
    from runtime.safety.shell import Shell

_TEXT = r"\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])*'|`(?:\\.|[^`\\])*`"
_TEXTS = re.compile(rf"(?:{_TEXT})(?:\s*,\s*\[?\s*(?:{_TEXT}))*")
"""Literal texts, with commas between those of one call."""
_BESIDE = 40
"""Characters before a literal text in which a verb says what is done with it."""
_STARTS = re.compile(
    r"(?i)system|exec|spawn|popen|passthru|shell|command|call-process|start-process|\brun\b|%x|qx|cmd|process\(|\|&?\s*$"
)
_FILLED = re.compile(r"[#$]\{[^}]*\}|\$[A-Za-z_]\w*(?:\{[^}]*\})?")
"""A variable in a text in double quotes or backticks."""
_REMOVES = re.compile(r"(?i)unlink|\brm|rmtree|remove|delete|rimraf")
_WRITES = re.compile(r"(?i)write|append|put_contents|truncate|mkdir|>\s*$")
_RISKY = re.compile(
    r"(?i)system|shell|\brun\b|(?<!\.)\bexec\b|exec[a-z]|spawn|popen|%x|\bqx|`|\bcmd\b|unlink|\brm|remove"
    r"|\bdelete\b(?! \w+[.\[])|download|\beval\b|\bkill\b|\bload\b"
)
"""Words that may have an effect, in code without the calls whose argument is a literal text."""
_CALLS = re.compile(
    rf"[\w.:]{{0,40}}[\s(\[{{]{{0,4}}(?:glob[\s(]*)?(?:{_TEXTS.pattern})(?!\s*(?:\+|\.\.?)\s*[$\w(])"
)
_PATTERN = re.compile(r"((?:^|[~(,{!&|=])\s*)/[\w\s|^.*+?\\\[\]-]+/")
"""A regular expression between slashes."""
_EDITOR_RUNS = re.compile(
    r"\s*:?\s*(?:r|read|w|silent|sil|%|shell|call\s+system\()*\s*!?\s*(?:!|shell\s|system\()\s*(.+)"
)
_SENDS = re.compile(r"(?i)child_process|['\".>:](?:post|put|patch|delete)\b|CURLOPT|smtp|mail\s*\(|Mail")
_CONNECTS = re.compile(r"(?i)socket|sockopen|/inet/|['\"](?:node:)?net['\"]")
_RUNS_TEXT = re.compile(r"\b(?:eval|system|exec|Function|load)\b")
_DOWNLOADS = re.compile(r"https?://|\bget\s*\(|URI\.open|LWP|fetch\(")
_DECODES = re.compile(r"(?i)base64|pack\b|unpack|fromCharCode|atob|inflate|rot13|hex|strrev|chr\(")


def follow(shell: Shell, language: str, text: str, program: str = "", base: Sequence[str] = ()) -> None:
    """Note what a text of code does; `base` is the file of the database that SQL is for."""
    shell.spend()
    if language == "shell":
        shell.run_text(text, ANYTHING.tagged("option"))
    elif language.startswith("file"):
        follow_file(shell, language[5:] or "shell", text)
    elif language == "sed":
        _sed(shell, text)
    elif language == "editor":
        for line in text.splitlines():
            if hit := _EDITOR_RUNS.match(line):
                shell.run_text(hit[1].strip().strip("'\")(") if "system(" in line else hit[1].strip())
            elif hit := re.match(r"\s*:?\s*(lua|py)\w*\s+(.+)", line):
                follow(shell, {"lua": "lua", "py": "python"}[hit[1]], hit[2])
    elif language == "setting":
        name, _, value = text.replace("=", " ", 1).partition(" ")
        if name.lower().endswith(("command", "exec")):
            shell.run_text(value.strip())
    elif language == "sql":
        sql.statements(shell, program, text, base)
    elif re.fullmatch(rf"[{''.join(UNKNOWN)}\s;]+", text):
        shell.hide("code", f"{language} runs what is not known")
    else:
        shell.note(Act("code", language, text=text, shown=f"{language}: {text}"))
        if language == "make":
            for recipe in re.findall(r"(?m)^\t[@-]*(.+)$|;[ \t]*[@-]*(.+)$|\$\(shell ([^)]*)\)", text):
                shell.run_text(next(filter(None, recipe)))
        elif language == "python" and python.read(shell, text):
            return
        elif language != "container":
            _literals(shell, language, text)


def feed(shell: Shell, language: str, stdin: Stream, program: str = "", base: Sequence[str] = ()) -> None:
    """Follow the code that a program reads from its input."""
    if stdin.text is None and language in ("editor", "container"):
        return  # a text to look at, an image to load
    paths = [each.removeprefix("path:") for each in stdin.tags if each.startswith("path:")]
    if stdin.text is not None:
        if stdin.text.strip():
            follow(shell, language, stdin.text, program, base)
    elif "download" in stdin.tags:
        shell.hide("download", "what is fetched from elsewhere is run")
    elif paths:
        for each in paths:
            follow_file(shell, language, each, program, base)
    elif language == "sql":
        if "piped" in stdin.tags and "file" not in stdin.tags:
            shell.note(Act("sql", program, tags=frozenset({"unknown"}), shown="SQL that is not known"))
    elif stdin is not ANYTHING:
        shell.hide("code", f"{program or language} runs what it is handed, and that is not known")


def follow_file(shell: Shell, language: str, path: str, program: str = "", base: Sequence[str] = ()) -> None:
    """Follow a file of code: one that this line has written, or a short one of the folder."""
    if has_unknown(path):
        if not path.startswith(INSIDE) and not shell.loose:
            shell.hide("command", f"which file {path} is")
        return
    whole = shell.path(path)
    if whole in shell.files:
        feed(shell, language, shell.files[whole], program, base)
        return
    if any(whole.startswith(f"{each}/") for each in shell.fetched) and shell.places.new(whole):
        shell.hide("download", "what is fetched from elsewhere is run")
    if not shell.places.inside(whole):
        if re.match(r"/(?:dev|proc)/", whole):
            shell.hide("code", f"what is run from {whole} is not known")
        elif shell.places.scratch(whole):
            shell.hide("unread", f"what {whole} does is not read")
    shell.touch("read", path, "run", shown="runs")
    if language == "python" and shell.places.there(f"{whole}/__main__.py"):
        whole = f"{whole}/__main__.py"
    text = shell.places.script(whole)
    if text is None and shell.places.there(whole):
        shell.hide("unread", f"{path} is too large to be read, or is no text")
    if text:
        loose, shell.loose = shell.loose, True  # only what it plainly does counts
        try:
            follow(shell, language_of(text, language), text, program, base)
        finally:
            shell.loose = loose


def language_of(text: str, language: str) -> str:
    """The language of a script; its first line takes precedence over `shell`."""
    first = text.split("\n", 1)[0]
    if not first.startswith("#!") or language != "shell":
        return language
    if re.search(r"\b(?:ba|da|z|k|a)?sh\b", first):
        return "shell"
    hit = re.search(r"\b(python|perl|ruby|node|php|lua|awk)", first)
    return hit[1] if hit else "other"


def _sed(shell: Shell, text: str) -> None:
    at = r"(?:^|[;\n{])\s*(?:\d+|\$|/[^/]*/)?\s*"
    for path in re.findall(rf"{at}[wW]\s+(\S+)", text):
        shell.touch("write", path, program="sed")
    runs = re.search(rf"{at}e(?:\s+(.+)|\s*$)", text)
    flag = re.search(r"s(.)(?:\\.|(?!\1).)*\1((?:\\.|(?!\1).)*)\1[gpiIm\d]*e", text)
    if runs or flag:
        shell.run_text((runs[1] if runs else flag[2] if flag else "") or ANY)


def _literals(shell: Shell, language: str, text: str) -> None:
    """Judge the literal texts of code that is not read, each by the verb before it."""
    text = re.sub(r"(['\"])\s*(?:\.|\+|\.\.)\s*\1", "", text)  # "r" . "m" is "rm"
    for hit in _TEXTS.finditer(text):
        before = text[max(0, hit.start() - _BESIDE) : hit.start()]
        texts = [
            each[1:-1] if each[0] == "'" else _FILLED.sub(ANY, each[1:-1])
            for each in re.findall(_TEXT, hit[0])
        ]
        piped = re.match(r"\s*\|&?\s*getline", text[hit.end() : hit.end() + _BESIDE])
        if piped or _STARTS.search(before) or (hit[0][0] == "`" and language != "node"):
            shell.run_text(re.sub(r"\\(['\"])", r"\1", " ".join(texts)), ANYTHING.tagged("option"))
        does = "delete" if _REMOVES.search(before + hit[0]) else "write" if _WRITES.search(before) else "read"
        for each in texts:
            _literal(shell, language, does, each)
    if _CONNECTS.search(text):
        shell.note(Act("connect", language, tags=frozenset({"socket"}), shown="opens a socket"))
    if re.search(r"\bfork\b", text) and re.search(r"\b(?:while|loop|for)\b", text):
        shell.hide("fork", "it starts processes for ever")
    if _RUNS_TEXT.search(text) and _DOWNLOADS.search(text):
        shell.hide("download", "what is fetched from elsewhere is run")
    if _RUNS_TEXT.search(text) and _DECODES.search(text):
        shell.hide("code", "it runs a text that is hidden")
    if _RISKY.search(_PATTERN.sub("", _CALLS.sub("", text))) or _SENDS.search(text):
        shell.hide("unread", f"what the code of {language} does is not read")


def _literal(shell: Shell, language: str, does: str, text: str) -> None:
    path = text.lstrip("+> ")
    if sql.looks_like_sql(text):
        sql.statements(shell, language, text)
    elif "://" in text:
        shell.connect(text, program=language)
    elif re.search(r"\s", path) or not (
        re.search(r"[./~*]", text) or (does == "delete" and has_unknown(text))
    ):
        return
    elif does == "delete":
        shell.touch("delete", path, "recursive", program=language)
    else:
        shell.read(path, program=language)
        if does == "write" or path != text:
            shell.touch("write", path, program=language)
