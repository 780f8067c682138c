"""The statements of shell: pipelines, loops, choices, functions, commands with redirections."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from runtime.nervous.lexer import expand, one, tokens
from runtime.nervous.values import ANY, NAME, NOTHING, UNTOLD, Stream

if TYPE_CHECKING:
    from runtime.nervous.shell import Node, Shell

ROUNDS = 12
"""Items of a loop that are followed."""
_ASSIGNS = re.compile(r"([A-Za-z_]\w*)(\[[^\]]*\])?(\+?)=")
_ENDLESS = re.compile(
    r"(?:while\s+(?:true|:|\[?\[?\s*1\s*\]?\]?|\(\(\s*1\s*\)\))|until\s+false)\s*[;\n]|for\s*\(\(\s*;\s*;"
)
_DECLARES = ("export", "declare", "typeset", "local", "readonly")
LEAVES = (
    *("command", "variable_assignment", "variable_assignments", "declaration_command", "unset_command"),
    *("test_command",),
)
"""Kinds of nodes that are one command."""


def _list(shell: Shell, node: Node, stdin: Stream) -> Stream:
    first, *rest = node.named_children
    printed = shell.walk(first, stdin)
    either = any(each.type == "||" for each in node.children)
    return printed.joined(shell.sequence(rest, stdin, maybe=either))


def _pipeline(shell: Shell, node: Node, stdin: Stream) -> Stream:
    stream = stdin
    for each in _stages(node):
        with shell.apart():
            stream = shell.walk(each, stream).tagged("piped")
    return stream


def _subshell(shell: Shell, node: Node, stdin: Stream) -> Stream:
    with shell.apart():
        return shell.sequence(node.named_children, stdin)


def _command_substitution(shell: Shell, node: Node, stdin: Stream) -> Stream:
    return shell.substituted(shell.text_of(node)[2:-1])


def _forks(shell: Shell, node: Node) -> None:
    body = node.child_by_field_name("body")
    if _ENDLESS.match(shell.text_of(node)) and body and any(each.type == "&" for each in body.children):
        shell.hide("fork", "it starts processes for ever")


def _while_statement(shell: Shell, node: Node, stdin: Stream) -> Stream:
    _forks(shell, node)
    printed = shell.sequence(node.named_children, stdin, maybe=True)
    return Stream(None, printed.tags, printed.shape)


def _c_style_for_statement(shell: Shell, node: Node, stdin: Stream) -> Stream:
    _forks(shell, node)
    for hit in re.finditer(r"\b([A-Za-z_]\w*)=", shell.text_of(node).partition(";")[0]):
        shell.variables[hit[1]] = [NAME]
    body = node.child_by_field_name("body")
    return Stream(None, shell.walk(body, stdin).tags) if body else NOTHING


def _for_statement(shell: Shell, node: Node, stdin: Stream) -> Stream:
    name = shell.text_of(node.child_by_field_name("variable"))
    body = node.child_by_field_name("body")
    values = node.children_by_field_name("value")
    text = shell.between(values[0].start_byte, values[-1].end_byte) if values else '"$@"'
    items = [each for token in tokens(text) for each in expand(shell, token.text)]
    items = list(dict.fromkeys(items))
    if len(items) > ROUNDS:
        risky = [each for each in items if each.startswith(("/", "~", "-", "..", ANY)) or each in (".", "*")]
        items = (risky or items)[:ROUNDS]
    printed = NOTHING
    for item in items if body else ():
        shell.variables[name] = [item]
        printed = printed.joined(shell.walk(body, stdin))
    return printed


def _case_statement(shell: Shell, node: Node, stdin: Stream) -> Stream:
    expand(shell, shell.text_of(node.child_by_field_name("value")))
    printed = NOTHING
    for item in node.named_children:
        if item.type == "case_item":
            values = {each.id for each in item.children_by_field_name("value")}
            rest = [each for each in item.named_children if each.id not in values]
            printed = printed.joined(shell.sequence(rest, stdin, maybe=True))
    return printed


def _function_definition(shell: Shell, node: Node, stdin: Stream) -> Stream:
    name, body = shell.text_of(node.child_by_field_name("name")), node.child_by_field_name("body")
    if body is None:
        return NOTHING
    shell.functions[name] = (shell.source, body)
    text = shell.text_of(body)
    called = re.search(rf"(?<![\w$]){re.escape(name)}(?![\w(])", text)
    if called and re.search(r"\|(?!\|)|(?<!&)&(?!&|>)", text):
        shell.hide("fork", f"the function {name} starts itself again and again")
    return NOTHING


def _redirected_statement(shell: Shell, node: Node, stdin: Stream) -> Stream:
    """A statement with redirections; behind `<<EOF` stand words and pipelines that belong to it."""
    body = node.child_by_field_name("body")
    inside: list[Node] = []  # what the grammar puts into a here-document
    given: Stream | None = None
    end = node.end_byte
    for each in node.children:
        if each.type == "heredoc_redirect":
            end = min(end, each.start_byte)
            given = _heredoc(shell, each)
            inside += [one for one in each.children if one.is_named]
    rest = [each for each in inside if each.type in ("pipeline", "list", "command", "redirected_statement")]
    words = [
        shell.text_of(each)
        for each in inside
        if each not in rest and not each.type.startswith("heredoc_") and each.type != "file_descriptor"
    ]
    stdin = stdin if given is None else given
    more = " " + " ".join(words)
    if body is None or body.type in LEAVES:
        if body is not None:
            shell.visited.add((body.start_byte, body.end_byte))
        printed = simple(shell, shell.between(node.start_byte, end) + more, stdin)
    else:
        marks = [
            each for each in tokens(shell.between(body.end_byte, max(end, body.end_byte)) + more) if each.sign
        ]
        inputs, outputs = _redirects(shell, marks)
        printed = _handed(shell, shell.walk(body, stdin if inputs is None else inputs), outputs)
    for each in rest:
        if each.type == "pipeline" or shell.between(end, each.start_byte).rstrip().endswith("|"):
            for stage in _stages(each):
                with shell.apart():
                    printed = shell.walk(stage, printed.tagged("piped"))
        else:
            printed = printed.joined(shell.walk(each, UNTOLD))
    return printed


def _heredoc(shell: Shell, node: Node) -> Stream:
    start = next((shell.text_of(each) for each in node.children if each.type == "heredoc_start"), "")
    body = next((each for each in node.children if each.type == "heredoc_body"), None)
    text = shell.text_of(body)
    if any(each.type == "<<-" for each in node.children):
        text = re.sub(r"(?m)^\t+", "", text)
    if re.search(r"[\"'\\]", start) or not re.search(r"[$`\\]", text):
        return Stream(text)
    return Stream(one(shell, '"' + text.replace('"', '\\"') + '"'))


def simple(shell: Shell, text: str, stdin: Stream) -> Stream:
    """A simple command: assignments, words and redirections."""
    from runtime.nervous.running import run

    words: list[str] = []
    fresh: list[str] = []
    redirects = []
    saved = dict(shell.variables)
    for token in tokens(text):
        if token.sign:
            redirects.append(token)
        elif (not words or words[0] in _DECLARES) and (hit := _ASSIGNS.match(token.text)):
            if words and re.search(r" -[a-zA-Z]*n", " " + " ".join(words[1:])):
                shell.references[hit[1]] = one(shell, token.text[hit.end() :])
                continue
            fresh += [] if words else [hit[1]]
            _assigned(shell, hit[1], token.text[hit.end() :], grows=bool(hit[3]), part=bool(hit[2]))
        else:
            words += expand(shell, token.text)
    shell.spend(len(words) // 8)
    inputs, outputs = _redirects(shell, redirects)
    stdin = stdin if inputs is None else inputs
    printed = run(shell, words, stdin) if words else stdin if inputs is not None else NOTHING
    if fresh and words:
        shell.variables = saved
    return _handed(shell, printed, outputs)


def _assigned(shell: Shell, name: str, text: str, *, grows: bool, part: bool) -> None:
    if text.startswith("("):
        values = [each for token in tokens(text[1:-1]) for each in expand(shell, token.text)]
        if any(re.match(r"\[[^\]]*\]=", each) for each in values):
            values = [ANY]
    else:
        values = [ANY] if part else [one(shell, text)]
    before = shell.variables.get(name)
    if grows and before:
        values = [*before, *values] if text.startswith("(") else [" ".join(before) + values[0]]
    shell.assign(name, values or [""])


def _redirects(shell: Shell, redirects: Sequence[Any]) -> tuple[Stream | None, list[tuple[str, bool]]]:
    """What comes in, and the files that what is printed goes to."""
    inputs: Stream | None = None
    outputs: list[tuple[str, bool]] = []
    for each in redirects:
        sign = each.sign
        if sign == "<<<":
            inputs = Stream(one(shell, each.text) + "\n")
            continue
        fields = [] if sign.startswith("<<") else expand(shell, each.text)
        target = fields[0] if fields else ""
        if not target or (sign in (">&", "<&") and re.fullmatch(r"\d*-?", target)):
            continue
        if sign in ("<", "<&"):
            inputs = shell.read(target)
        elif sign == "<>":
            inputs = shell.read(target)
            shell.touch("write", target, "writes")
        elif each.descriptor in ("", "1") or sign.startswith("&"):
            outputs.append((target, sign.endswith(">>")))
        else:
            shell.write(target, UNTOLD, append=True)
    return inputs, outputs


def _handed(shell: Shell, printed: Stream, outputs: Sequence[tuple[str, bool]]) -> Stream:
    for path, append in outputs:
        shell.write(path, printed, append=append)
    return NOTHING if outputs else printed


def _stages(node: Node) -> Iterator[Node]:
    """The commands of a pipeline, in order."""
    if node.type != "pipeline":
        yield node
        return
    for each in node.named_children:
        if each.type == "pipeline":
            yield from _stages(each)
        elif each.type != "comment":
            yield each


STATEMENTS: Mapping[str, Callable[[Shell, Node, Stream], Stream]] = {
    "list": _list,
    "pipeline": _pipeline,
    "subshell": _subshell,
    "command_substitution": _command_substitution,
    "while_statement": _while_statement,
    "c_style_for_statement": _c_style_for_statement,
    "for_statement": _for_statement,
    "case_statement": _case_statement,
    "function_definition": _function_definition,
    "redirected_statement": _redirected_statement,
}
"""How each kind of node is followed."""
