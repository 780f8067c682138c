"""What a program sends to other machines and fetches from them, by its words."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from runtime.nervous.hosts import loopback
from runtime.nervous.options import Line
from runtime.nervous.values import ANY, UNTOLD, Act, Stream, listed, untold

if TYPE_CHECKING:
    from runtime.nervous.shell import Shell


_DETOURS = listed(
    "-x --proxy --preproxy --socks4 --socks4a --socks5 --socks5-hostname --resolve --connect-to "
    "-K --config -e --execute"
)
"""Options of curl and wget by which an address may lead elsewhere."""


def curl(shell: Shell, line: Line, stdin: Stream) -> None:
    """What is asked for, sent and written."""
    urls = [*line.operands, *line.all("--url")]
    where = _where(shell, line, urls)
    for each in urls:
        shell.connect(each, program="curl")
        if each.startswith("file:"):
            shell.read(each, program="curl")
        if untold(each.partition("?")[2]) or (re.search(rf"//[^/]*[{ANY}]", each) and "?" not in each):
            shell.send(each, Stream(None), "curl")
    for name in (
        "-d",
        "--data",
        "--data-binary",
        "--data-ascii",
        "--data-urlencode",
        "--json",
        "-F",
        "--form",
        "--data-raw",
    ):
        for value in line.all(name):
            _sent(shell, where, name, value, stdin)
    for value in line.all("-T", "--upload-file"):
        _file_sent(shell, where, value, stdin, "curl")
    for value in line.all(
        "-H", "--header", "-u", "--user", "-b", "--cookie", "-A", "--user-agent", "-e", "--referer"
    ):
        if value.startswith("@"):
            _file_sent(shell, where, value[1:], stdin, "curl")
        elif untold(value):
            shell.send(where, Stream(None), "curl")
    for value in line.all("-K", "--config"):
        shell.read(value, program="curl")
    method = line.value("-X", "--request").upper()
    shell.note(Act("request", "curl", text=method, shown=f"{method or 'GET'} {where}"))
    fetched = UNTOLD.tagged("download")
    for value in line.all("-o", "--output"):
        base = line.value("--output-dir")
        shell.write(f"{base}/{value}" if base else value, fetched, program="curl")
    for value in line.all("-c", "--cookie-jar", "-D", "--dump-header", "--trace", "--stderr"):
        shell.touch("write", value, "writes", program="curl")
    if line.has("-O", "--remote-name", "--remote-name-all"):
        for each in urls:
            name = each.rstrip("/").rpartition("/")[2].partition("?")[0] or "index.html"
            shell.write(f"{line.value('--output-dir') or '.'}/{name}", fetched, program="curl")


def _where(shell: Shell, line: Line, urls: list[str]) -> str:
    """Where data goes: of several addresses one that is not this machine, which a proxy makes unknown."""
    if line.has(*_DETOURS) or any(name.lower().endswith("_proxy") for name in shell.variables):
        return next((each for each in urls if not loopback(each)), ANY)
    return next((each for each in urls if not loopback(each)), urls[0] if urls else ANY)


def _sent(shell: Shell, where: str, name: str, value: str, stdin: Stream) -> None:
    if name in ("-F", "--form"):
        _, _, value = value.partition("=")
        if value[:1] in ("@", "<"):
            _file_sent(shell, where, value[1:].partition(";")[0], stdin, "curl")
            return
    elif value.startswith("@") and name != "--data-raw":
        _file_sent(shell, where, value[1:], stdin, "curl")
        return
    elif name == "--data-urlencode" and re.match(r"\w*@", value):
        _file_sent(shell, where, value.partition("@")[2], stdin, "curl")
        return
    shell.send(where, Stream(value), "curl")


def _file_sent(shell: Shell, where: str, path: str, stdin: Stream, program: str) -> None:
    if path in ("-", "/dev/stdin", "."):
        shell.send(where, stdin, program)
    else:
        shell.send(where, shell.read(path, program=program).tagged("file"), program)


def wget(shell: Shell, line: Line, stdin: Stream) -> None:
    """What is asked for, sent and written."""
    where = _where(shell, line, line.operands)
    for each in line.operands:
        shell.connect(each, program="wget")
        if untold(each.partition("?")[2]):
            shell.send(each, Stream(None), "wget")
    for value in line.all("--post-file", "--body-file"):
        _file_sent(shell, where, value, stdin, "wget")
    for value in line.all("--post-data", "--body-data"):
        shell.send(where, Stream(value), "wget")
    for value in line.all("--header"):
        if untold(value):
            shell.send(where, Stream(None), "wget")
    shell.note(Act("request", "wget", text=line.value("--method").upper(), shown=f"fetches {where}"))
    fetched = UNTOLD.tagged("download")
    target = line.value("-O", "--output-document")
    if target and target != "-":
        shell.write(target, fetched, program="wget")
    elif not target:
        for each in line.operands:
            name = each.rstrip("/").rpartition("/")[2].partition("?")[0] or "index.html"
            shell.write(f"{line.value('-P', '--directory-prefix') or '.'}/{name}", fetched, program="wget")


def nc(shell: Shell, line: Line, stdin: Stream) -> None:
    """A plain connection, or one waited for."""
    listens = line.has("-l", "--listen") or any(
        "l" in each for each in line.options if re.match(r"-[a-z]+$", each)
    )
    shell.note(
        Act(
            "listen" if listens else "connect",
            line.program,
            text=" ".join(line.operands[:1]),
            tags=frozenset({"raw"}),
            shown=f"{line.program} {' '.join(line.words)}",
        )
    )
    if stdin is not UNTOLD and not listens:
        shell.send(":".join(line.operands[:2]), stdin, line.program)


def openssl(shell: Shell, line: Line, stdin: Stream) -> None:
    """Keys that are read, and `s_client`."""
    for each in line.all("-in", "-inkey", "-key"):
        shell.read(each, program="openssl")
    for each in line.all("-out", "-keyout"):
        shell.touch("write", each, "writes", program="openssl")
    if line.words[:1] == ["s_client"]:
        where = line.value("-connect")
        shell.connect(where, "raw", program="openssl")
        if stdin is not UNTOLD and stdin.text != "":
            shell.send(where, stdin, "openssl")


def remote_copy(shell: Shell, line: Line, stdin: Stream) -> None:
    """Copies from and to other machines."""
    if not line.operands:
        return
    *sources, target = line.operands
    remote = re.compile(r"^(?:[\w.-]+@)?[\w.-]+:|^(?:rsync|sftp|scp|s3|gs|az|ftp)://|^\w[\w-]+:")
    for each in sources:
        if not remote.match(each):
            known = shell.read(each, program=line.program)
            if remote.match(target):
                shell.send(target, known.tagged("file"), line.program)
    if not remote.match(target):
        shell.touch("write", target, "copies to", program=line.program)
        if line.has("--delete", "--delete-before", "--delete-after", "--delete-excluded", "--delete-during"):
            shell.touch(
                "delete",
                target,
                "removes what is not in the source from",
                "recursive",
                "mirrored",
                program="rsync",
            )
    if line.has("--remove-source-files"):
        for each in sources:
            shell.touch("delete", each, "removes", program=line.program)


def looked_up(shell: Shell, line: Line, stdin: Stream) -> None:
    """Names that are looked up somewhere else: what is in them leaves this machine."""
    for each in line.operands:
        if untold(each):
            shell.send(each, UNTOLD, line.program)
