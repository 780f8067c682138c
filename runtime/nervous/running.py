"""One simple command: what it runs in the end, behind wrappers, interpreters and names of its own.

What a program does with its words is in the table of programs; where they have a grammar of their own,
the table names by `how` who reads them.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from runtime.nervous import code
from runtime.nervous.builtins import BUILTINS
from runtime.nervous.files import FILES
from runtime.nervous.launchers import LAUNCHERS
from runtime.nervous.programs import Line, Reader, effects, given_code, printed, rest_of, sort_words
from runtime.nervous.values import FETCHED, NAME, NOTHING, TELLS, UNTOLD, Act, Stream, untold

if TYPE_CHECKING:
    from runtime.nervous.shell import Shell


def run(shell: Shell, words: Sequence[str], stdin: Stream) -> Stream:
    """Follow one command with its words; returns what it prints."""
    shell.spend(1 + len(words) // 16)
    name = words[0]
    if name in shell.functions:
        return shell.call(name, words[1:], stdin)
    if name in shell.aliases and name not in shell.calling:
        shell.calling.append(name)
        try:
            return shell.run_text(f"{shell.aliases[name]} {shlex.join(words[1:])}", stdin, shell.positional)
        finally:
            shell.calling.pop()
    if untold(name) or not name or (re.search(r"[*?]|.\[", name) and name != "[["):
        return _unknown(shell, words, stdin)
    program = name.rstrip("/").rpartition("/")[2] or name
    if re.fullmatch(r"[A-Za-z_]\w*\+?=.*", name, re.DOTALL):
        return NOTHING  # what looks like an assignment after expansion is no command that exists
    spec = shell.table.of(program)
    line = sort_words(program, words[1:], spec)
    if program in BUILTINS:
        found = BUILTINS[program](shell, line, stdin)
        if found is not None:
            return found
    told = " ".join([line.program, *line.words])
    shell.note(Act("run", line.program, tuple(line.words), tags=stdin.sorts, shown=f"runs {told}"))
    if tuple(line.words) in TELLS:
        return NOTHING
    if "/" in name and not re.match(r"/(?:usr|bin|sbin|opt)/", name):
        _program_file(shell, name)
    if line.operands[:1] in (["completion"], ["completions"], ["shellenv"]):
        return Stream("\n")  # settings for the shell that starts it
    given_code(shell, line, stdin)
    if spec.how:
        found = HOW[spec.how](shell, line, stdin)
        if found is not None:
            return found
    if spec.runs:
        return _wrapped(shell, line, stdin)
    if spec.language:
        return _interpreted(shell, line, stdin)
    effects(shell, line, stdin)
    return printed(shell, line, stdin)


def _unknown(shell: Shell, words: Sequence[str], stdin: Stream) -> Stream:
    """A command whose name is known only when it is run."""
    if not words[0] and len(words) == 1:
        return NOTHING
    if FETCHED in words[0]:
        shell.hide("download", "what is fetched from elsewhere is run")
    shell.hide("command", f"which program {words[0] or 'an empty name'} means")
    for at, word in enumerate(words[1:4], 1):  # perhaps the unknown part is a wrapper, or is empty
        if shell.table.of(word).known and not word.startswith("-"):
            run(shell, words[at:], stdin)
    return UNTOLD


def _program_file(shell: Shell, name: str) -> None:
    """A program named by its path: one of this line or of the folder is looked into."""
    whole = shell.path(name)
    text = shell.places.script(whole)
    if whole in shell.files or (text or "").startswith("#!") or not shell.places.inside(whole):
        if not (shell.places.inside(whole) or shell.places.scratch(whole)):
            return
        code.file(shell, "shell", name)
    elif any(whole.startswith(f"{each}/") for each in shell.fetched) and shell.places.new(whole):
        shell.hide("download", "what is fetched from elsewhere is run")


def _wrapped(shell: Shell, line: Line, stdin: Stream) -> Stream:
    """`sudo x`, `timeout 5 x`, `watch 'x y'`: the words after those of the program itself."""
    words, options = rest_of(line.words, line.spec.values)
    if line.program == "command" and any(name in ("-v", "-V") for name, _ in options):
        return Stream(None, shape=NAME)
    if line.spec.runs == "text":
        return shell.run_text(" ".join(words), stdin) if words else NOTHING
    words = words[int(line.spec.runs) :]
    while words and re.fullmatch(r"[A-Za-z_]\w*=.*", words[0], re.DOTALL):
        name, _, value = words.pop(0).partition("=")
        shell.assign(name, [value])
    if not words and any(name in ("-i", "-s", "--login") for name, _ in options):
        words = ["sh"]
    return shell.inner(words, stdin)


def _shell(shell: Shell, line: Line, stdin: Stream) -> Stream | None:
    words = line.words
    at, given = 0, False
    while at < len(words) and words[at][:1] in "-+" and words[at] not in ("-", "--"):
        word = words[at]
        if word in ("-O", "+O", "-o", "+o", "--rcfile", "--init-file"):
            if word.startswith("--") and at + 1 < len(words):
                code.file(shell, "shell", words[at + 1])
            at += 1
        elif (not word.startswith("--") and "c" in word[1:]) or word in ("--command", "--commands"):
            given = True
        elif re.fullmatch(r"-[a-z]*i[a-z]*|--interactive", word) and "download" in stdin.tags:
            shell.hide("download", "a shell is given to somebody elsewhere")
        at += 1
    start = at
    at += words[at : at + 1] in (["-"], ["--"])
    rest = words[at:]
    if line.spec.language:  # a shell with another grammar: what can be read as a usual one is
        shell.hide("unread", f"what the code of {line.program} does is not read for certain")
    out = UNTOLD
    with shell.apart():
        if given:
            out = shell.run_text(rest[0], stdin, rest[2:]) if rest else NOTHING
        elif "-n" in words[:start]:
            return NOTHING  # only read
        elif rest and "-s" not in words[:start] and rest[0] not in ("/dev/stdin", "/dev/fd/0", "-"):
            saved, shell.positional = shell.positional, tuple(rest[1:])
            code.file(shell, "shell", rest[0])
            shell.positional = saved
        else:
            code.fed(shell, "shell", stdin, line.program)
    return out.tagged("shell")


def _interpreted(shell: Shell, line: Line, stdin: Stream) -> Stream:
    """Code in options of an interpreter, in its input, or in a file of this line or of the folder."""
    language, words = line.spec.language, line.words
    texts: list[str] = []
    at = 0
    while at < len(words) and words[at].startswith("-") and words[at] not in ("-", "--"):
        word = words[at]
        at += 1
        name, _, value = word.partition("=")
        short = next((each for each in line.spec.eval if re.fullmatch(rf"-[a-zA-Z0-9]*{each[1:]}", word)), "")
        short = "" if re.match(r"-[IMWr].", word) else short
        if name in line.spec.eval or (short and len(short) == 2):
            texts.append(value or (words[at] if at < len(words) else ""))
            at += not value
        elif language == "python" and re.fullmatch(r"-[a-zA-Z]*m", word):
            return shell.inner(words[at:] or ["true"], stdin)
        elif hit := next((each for each in line.spec.eval if len(each) == 2 and word.startswith(each)), ""):
            texts.append(word[2:]) if hit and language != "node" else None
        elif word in line.spec.values:
            at += 1
        if texts and language == "python":
            break
    rest = words[at + (words[at : at + 1] == ["--"]) :]
    if language == "node" and words[:1] == ["eval"]:  # deno eval
        texts, rest = rest[1:2], []
    for text in texts:
        code.follow(shell, language, text, line.program)
    if not texts and any(each in ("-V", "--version", "-v", "-h", "--help") for each in words):
        return NOTHING
    if not texts and (not rest or rest[0] in ("-", "/dev/stdin")):
        known = stdin if not rest or stdin is not UNTOLD else UNTOLD.tagged("piped")
        code.fed(shell, language, known, line.program)
    elif not texts and not re.match(r"https?://", rest[0]):
        code.file(shell, language, rest[0], line.program)
    for each in rest if texts else rest[1:]:
        if re.search(r"[./~]", each) and "://" not in each:
            shell.read(each, program=language)
    if language == "perl" and any(re.match(r"-\w*i", each) for each in line.options):
        for each in rest:
            shell.touch("write", each, "changes", program="perl")
    plain = re.fullmatch(
        r"\s*(?:print|puts|console\.log|echo)\s*\(?\s*(['\"])((?:(?!\1)[^\\])*)\1\s*\)?\s*;?\s*",
        "".join(texts),
    )
    return Stream(plain[2] + "\n") if plain else Stream(None, stdin.sorts)


HOW: Mapping[str, Reader] = {**FILES, **LAUNCHERS, "shell": _shell}
"""Who reads the words of programs that have a grammar of their own."""
