"""Code of other languages inside a command: `python -c`, `perl -e`, `node -e`, awk; what it runs and removes.

Python is read by `ast`; of the others what looks like a call that runs or removes something, with its text.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from runtime.nervous import sql
from runtime.nervous.options import Line, family
from runtime.nervous.values import ANY, NOTHING, UNTOLD, Act, Stream, listed, untold

if TYPE_CHECKING:
    from runtime.nervous.shell import Shell

LANGUAGES = listed(
    "python pypy perl ruby node nodejs deno bun php lua awk gawk mawk nawk tclsh osascript Rscript julia "
    "expect"
)
_CODE = {
    "python": ("-c",),
    "pypy": ("-c",),
    "perl": ("-e", "-E"),
    "ruby": ("-e",),
    "node": ("-e", "-p", "--eval", "--print"),
    "bun": ("-e", "--eval", "-p"),
    "php": ("-r",),
    "lua": ("-e",),
    "Rscript": ("-e",),
    "julia": ("-e", "-E"),
    "expect": ("-c",),
    "osascript": ("-e",),
}
_FROM_INPUT = listed("python pypy perl ruby node php lua tclsh osascript expect")
_RUNS = re.compile(
    r"(?:\b(?:system|exec|popen|shell_exec|passthru|proc_open|execSync|spawnSync|spawn|execFile|execFileSync|os\.execute|io\.popen"
    r"|pcntl_exec|syscall|IO\.popen|Kernel\.\w+|Open3\.\w+|Deno\.Command|do\s+shell\s+script|qx)\b\s*[\(\{]?\s*|(?<![\w\]])(?=`)|%x(?=[\{\(\[]))"
    r"(?P<text>\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])*'|`(?:\\.|[^`\\])*`|\{[^}]*\}|\[[^\]]*\]|[^\s;,)\"']*)"
)
_REMOVES = re.compile(
    r"\b(?:unlink|unlinkSync|rmdir|rmdirSync|rmSync|rmtree|remove_tree|rm_rf|rm_r|rm_f|remove_entry\w*"
    r"|remove_dir|delete|rimraf|Deno\.remove|removeSync|os\.remove|fs\.rm|fs\.promises\.rm|unlink_file)\b(?:['\"]\s*,|\s*\(?)\s*"
    r"(?P<text>\"[^\"]*\"|'[^']*'|glob[ (]*\"[^\"]*\"|<[^>]*>|[$@\w.()\[\]/*]*)"
)
_OPENS = re.compile(
    r"\b(?:writeFile|writeFileSync|appendFile|appendFileSync|createWriteStream|file_put_contents|File\.write"
    r"|truncateSync|truncate)\s*\(\s*(?P<text>\"[^\"]*\"|'[^']*')|\bopen\s*\(?[^;]*?[\"']\+?>+\s*(?P<other>[^\"']+)[\"']"
    r"|File\.open\(\s*(?P<third>\"[^\"]*\"|'[^']*')\s*,\s*['\"][wa]"
    r"|\b(?:readFile|readFileSync|file_get_contents|File\.read|slurp)\s*\(\s*(?P<read>\"[^\"]*\"|'[^']*')"
)
_CONNECTS = re.compile(
    r"IO::Socket|Socket::INET|use\s+Socket|TCPSocket|fsockopen|net\.(?:connect|Socket|createConnection)"
    r"|require\(['\"]net['\"]\)|socket\.tcp|/inet/tcp|TCPServer|require[ (]['\"]socket['\"]"
)
_FETCHED = re.compile(
    r"(?s)\b(?:eval|exec|instance_eval|class_eval|new Function|Function|vm\.run\w*|load|loadstring"
    r"|require)\b.*"
    r"(?:https?://|\bget\s*\(|URI\.open|open-uri|LWP|fetch\(|Net::HTTP|file_get_contents)|"
    r"(?:https?://|URI\.open|LWP|fetch\(|Net::HTTP|file_get_contents).*"
    r"\b(?:eval|new Function|vm\.run\w*|instance_eval|load)\b"
)
_FORKS = re.compile(
    r"\bfork\b[^;]*\bwhile\b|\bwhile\b[^;]*\bfork\b|\bloop\s*\{\s*fork|\bfork\s*(?:\(\))?\s*while"
    r"|while\s*\(?\s*(?:1|true)\s*\)?\s*\{?\s*(?:.*\bfork)"
)


def interpreter(program: str) -> str | None:
    """The language that a program interprets, None when it is no interpreter: python3.11 is python."""
    bare = re.sub(r"[\d.]+$", "", program)
    bare = {
        "nodejs": "node",
        "pypy": "python",
        "ipython": "python",
        "luajit": "lua",
        "gawk": "awk",
        "mawk": "awk",
        "nawk": "awk",
        "irb": "ruby",
        "deno": "node",
        "php-cli": "php",
        "uv": "",
    }.get(bare, bare)
    return bare if bare in LANGUAGES else None


def code(shell: Shell, language: str, line: Line, stdin: Stream) -> Stream:
    """Follow an interpreter: code in its options, its input, or a file of this line or of the folder."""
    from runtime.nervous.outputs import printed_by

    if language == "awk":
        return _awk(shell, line, stdin)
    texts, rest, valued = _given(language, line)
    for text in texts:
        body(shell, language, text)
    if not texts and line.program == "deno" and line.words[:1] == ["eval"]:
        body(shell, language, " ".join(line.words[1:2]))
    elif (
        not texts and not valued and language in _FROM_INPUT and (not rest or rest[0] in ("-", "/dev/stdin"))
    ):
        if stdin is not UNTOLD or rest:
            _fed(shell, language, stdin)
    elif not texts and not valued and rest:
        _file(shell, language, rest[0])
    if language == "perl" and any(re.match(r"-\w*i", each) for each in line.options):
        for each in rest:
            shell.touch("write", each, "changes", program="perl")
    elif texts:
        for each in rest:
            if re.search(r"[./~]", each):
                shell.read(each, program=language)
    return printed_by(shell, line, stdin if not texts else Stream(None, stdin.tags))


def _given(language: str, line: Line) -> tuple[list[str], list[str], bool]:
    """The code in the options, the words after them, and whether a module or the like is run instead."""
    names = _CODE.get(language, ())
    words = line.words
    texts: list[str] = []
    at = 0
    while at < len(words) and words[at].startswith("-") and words[at] not in ("-", "--"):
        word = words[at]
        at += 1
        short = not word.startswith("--")
        for name in names:
            if word == name or (
                short
                and language in ("perl", "ruby", "node", "python", "php")
                and len(name) == 2
                and re.fullmatch(rf"-[a-zA-Z0-9]*{name[1]}", word)
                and not word.startswith(("-I", "-M", "-W"))
            ):
                if at < len(words):
                    texts.append(words[at])
                    at += 1
                break
            if word.startswith(f"{name}=") or (
                len(name) == 2 and word.startswith(name) and len(word) > 2 and language != "node"
            ):
                texts.append(word[2:] if len(name) == 2 else word.partition("=")[2])
                break
        else:
            if language == "python" and (word == "-m" or re.fullmatch(r"-[a-zA-Z]*m", word)):
                return texts, words[at + 1 :], True
            if word in ("-W", "-X", "-I", "-r", "--require", "-M", "-d", "-S", "-t", "--import", "-F"):
                at += 1
        if texts and language == "python":
            break
    if at < len(words) and words[at] == "--":
        at += 1
    version = any(each in ("-V", "--version", "-v", "-h", "--help") for each in words)
    return texts, words[at:], version


def _fed(shell: Shell, language: str, stdin: Stream) -> None:
    if stdin.text is not None:
        if stdin.text.strip():
            body(shell, language, stdin.text)
    elif "download" in stdin.tags:
        shell.hide("download", "what is fetched from elsewhere is run")
    elif files := [each.removeprefix("path:") for each in stdin.tags if each.startswith("path:")]:
        for each in files:
            _file(shell, language, each)
    else:
        shell.hide("code", f"{language} runs what it is handed, and that is not known")


def _file(shell: Shell, language: str, path: str) -> None:
    if untold(path):
        return
    whole = shell.path(path)
    if whole in shell.files:
        _fed(shell, language, shell.files[whole])
        return
    if shell.places.scratch(whole):
        shell.hide("code", f"what {whole} does is not known")
    text = shell.places.script(whole)
    if text:
        loose, shell.loose = shell.loose, True
        try:
            body(shell, language, text)
        finally:
            shell.loose = loose


def body(shell: Shell, language: str, text: str) -> None:
    """Follow a text of code."""
    shell.found.spend()
    if (
        text.strip(" \n;")
        and all(each in text and untold(each) for each in [text])
        and re.fullmatch(rf"[{ANY}\ue002\ue003\s;]+", text)
    ):
        shell.hide("code", f"{language} runs what is not known")
        return
    shell.note(Act("code", language, text=text, shown=f"{language}: {text}"))
    if language == "python":
        from runtime.nervous.pythons import follow

        follow(shell, text)
    elif language not in ("osascript",):
        _other(shell, language, text)


def _other(shell: Shell, language: str, text: str) -> None:
    from runtime.nervous.running import execute

    if _FORKS.search(text):
        shell.hide("fork", "it starts processes for ever")
    if _CONNECTS.search(text):
        shell.note(Act("connect", language, tags=frozenset({"socket"}), shown="opens a socket"))
    joined = re.sub(r"(['\"])\s*(?:\.|\+|\.\.)\s*\1", "", text)  # "r" . "m" is "rm"
    for hit in _RUNS.finditer(joined):
        what = hit["text"]
        if not what or what in ("function", "=>"):
            continue
        if what[:1] in "\"'`{":
            inner = what[1:-1]
            if what[:1] == "{" and not joined[: hit.start("text")].rstrip().endswith(("%x", "qx", "qx{")):
                continue
            rest = joined[hit.end("text") : hit.end("text") + 2_000]
            more = re.match(r"((?:\s*,\s*\[?\s*(?:\"[^\"]*\"|'[^']*'))+)", rest)
            words = re.findall(r"\"([^\"]*)\"|'([^']*)'", more[1]) if more else []
            inner = " ".join([inner, *(one or two for one, two in words)])
            if re.match(r"\s*(?:\+|\.\.?)\s*[$\w(]", rest):  # put together with what is known only later
                inner += ANY
            inner = re.sub(r"#\{[^}]*\}|\$\{[^}]*\}", ANY, inner) if what[0] in '"`' else inner
            execute(shell, inner.replace('\\"', '"').replace("\\'", "'"))
        elif what[:1] == "[":
            words = re.findall(r"\"([^\"]*)\"|'([^']*)'", what)
            execute(shell, " ".join(one or two for one, two in words) or ANY)
        elif not (language == "node" and re.search(r"\.exec\s*\(?\s*$", joined[: hit.start("text")])):
            shell.hide("code", f"{language} runs what is not known")
    for hit in _REMOVES.finditer(joined):
        what = hit["text"]
        if hit[0].startswith("delete") and not re.search(
            r"Dir|File", joined[max(hit.start() - 8, 0) : hit.start()]
        ):
            continue
        path = re.sub(r"^glob[ (]*", "", what).strip("\"'<>") if what[:1] in "\"'<g" else ANY
        shell.touch("delete", path, "removes", "recursive", program=language)
    for hit in _OPENS.finditer(joined):
        if hit["read"]:
            shell.read(hit["read"].strip("\"'"), program=language)
        else:
            shell.touch(
                "write",
                (hit["text"] or hit["other"] or hit["third"]).strip("\"' "),
                "writes",
                program=language,
            )
    for hit in re.finditer(r"\"([^\"\n]{2,200})\"|'([^'\n]{2,200})'", joined):
        literal = hit[1] or hit[2]
        if sql.looks_like(literal):
            for told, tags in sql.statements(literal):
                shell.note(Act("sql", language, text=told, tags=tags, shown=f"SQL: {told}"))
        elif "/" in literal and " " not in literal and "://" not in literal:
            shell.read(literal, program=language)
    if _FETCHED.search(text):
        shell.hide("download", "what is fetched from elsewhere is run")
    if re.search(r"\beval\b", text) and re.search(
        r"(?i)base64|\bpack\b|fromCharCode|unpack|atob|gzinflate|str_rot13|hex", text
    ):
        shell.hide("code", f"{language} runs a text that is hidden")


def _awk(shell: Shell, line: Line, stdin: Stream) -> Stream:
    from runtime.nervous.outputs import printed_by
    from runtime.nervous.running import execute

    given = line.all("-f", "--file")
    text = "" if given or not line.operands else line.operands[0]
    for each in given:
        shell.read(each, program="awk")
    for each in line.operands[0 if given else 1 :]:
        if "=" not in each:
            shell.read(each, program="awk")
    shell.note(Act("code", "awk", text=text, shown=f"awk: {text}"))
    for hit in re.finditer(r"\bsystem\s*\(\s*(\"(?:\\.|[^\"\\])*\"|[^)]*)", text):
        if _in_string(text, hit.start()):
            continue
        execute(shell, hit[1].strip('"').replace('\\"', '"') if hit[1].startswith('"') else _awk_text(hit[1]))
    for hit in re.finditer(
        r"(\"(?:\\.|[^\"\\])*\")\s*\|&?\s*getline|(?:print|printf)[^|\n]*\|&?\s*(\"(?:\\.|[^\"\\])*\")", text
    ):
        execute(shell, (hit[1] or hit[2]).strip('"').replace('\\"', '"'), UNTOLD)
    if "/inet/" in text:
        shell.note(Act("connect", "awk", tags=frozenset({"socket"}), shown="opens a socket"))
    for hit in re.finditer(r"(?:print|printf)\b[^;}\n]*?>>?\s*\"([^\"]+)\"", text):
        shell.touch("write", hit[1], "writes", program="awk")
    return printed_by(shell, line, stdin)


def _in_string(text: str, at: int) -> bool:
    return len(re.findall(r'(?<!\\)"', text[:at])) % 2 == 1


def _awk_text(text: str) -> str:
    """What awk puts together of literal parts and fields."""
    parts = re.findall(r"\"((?:\\.|[^\"\\])*)\"|([^\s\"]+)", text)
    return "".join(one if one else ANY for one, _ in parts) or ANY


__all__ = ["LANGUAGES", "NOTHING", "body", "code", "family", "interpreter"]
