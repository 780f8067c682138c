"""The statements of shell, one function each: sequences, pipelines, loops, choices, functions."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from runtime.nervous import commands
from runtime.nervous.values import ANY, NAME, NOTHING, Stream
from runtime.nervous.words import MOST, Node, expand

if TYPE_CHECKING:
    from runtime.nervous.shell import Shell

ROUNDS = 12
"""Items of a loop that are followed."""


def sequence(shell: Shell, nodes: Sequence[Node], stdin: Stream, parent: Node | None = None) -> Stream:
    """One statement after the other."""
    printed = NOTHING
    maybe = parent is not None and parent.type in (
        "if_statement",
        "elif_clause",
        "else_clause",
        "case_item",
    )
    shell.maybe += maybe
    for each in nodes:
        printed = printed.joined(shell.walk(each, stdin))
    shell.maybe -= maybe
    return printed


def _chain(shell: Shell, node: Node, stdin: Stream) -> Stream:
    first, *rest = node.named_children
    printed = shell.walk(first, stdin)
    either = any(each.type == "||" for each in node.children)
    shell.maybe += either
    printed = printed.joined(sequence(shell, rest, stdin))
    shell.maybe -= either
    return printed


def _pipeline(shell: Shell, node: Node, stdin: Stream) -> Stream:
    stream = stdin
    for each in commands.stages(node):
        with shell.apart():
            stream = shell.walk(each, stream).tagged("piped")
    return stream


def _subshell(shell: Shell, node: Node, stdin: Stream) -> Stream:
    with shell.apart():
        return sequence(shell, node.named_children, stdin)


def _negated_command(shell: Shell, node: Node, stdin: Stream) -> Stream:
    return sequence(shell, node.named_children, stdin)


def _while_statement(shell: Shell, node: Node, stdin: Stream) -> Stream:
    text = shell.text_of(node)
    if re.match(r"(?:while\s+(?:true|:|\[?\[?\s*1\s*\]?\]?|\(\(\s*1\s*\)\))|until\s+false)\s*[;\n]", text):
        body = node.child_by_field_name("body")
        if body is not None and any(each.type == "&" for each in body.children):
            shell.hide("fork", "it starts processes for ever")
    shell.maybe += 1
    printed = sequence(shell, node.named_children, stdin)
    shell.maybe -= 1
    return Stream(None, printed.tags, printed.shape)


def _for_statement(shell: Shell, node: Node, stdin: Stream) -> Stream:
    name = shell.text_of(node.child_by_field_name("variable"))
    body = node.child_by_field_name("body")
    items: list[str] = []
    for value in node.children_by_field_name("value"):
        for fields in expand(shell, value):
            items += fields
    if not node.children_by_field_name("value"):
        items = list(shell.positional)
    items = list(dict.fromkeys(items))
    if len(items) > ROUNDS:
        shell.variables[name] = tuple((each,) for each in items[:MOST])
        items = items[:ROUNDS] if not any(map(_risky, items)) else [*filter(_risky, items)][:ROUNDS]
    printed = NOTHING
    for item in items:
        shell.variables[name] = ((item,),)
        printed = printed.joined(shell.walk(body, stdin))
    return printed


def _c_style_for_statement(shell: Shell, node: Node, stdin: Stream) -> Stream:
    for each in node.children_by_field_name("initializer"):
        if each.type == "variable_assignment":
            shell.variables[shell.text_of(each.child_by_field_name("name"))] = ((NAME,),)
    body = node.child_by_field_name("body")
    text = shell.text_of(node)
    if re.match(r"for\s*\(\(\s*;\s*;", text) and body and any(each.type == "&" for each in body.children):
        shell.hide("fork", "it starts processes for ever")
    return Stream(None, shell.walk(body, stdin).tags) if body else NOTHING


def _case_statement(shell: Shell, node: Node, stdin: Stream) -> Stream:
    value = node.child_by_field_name("value")
    if value is not None:
        expand(shell, value)
    printed = NOTHING
    for item in node.named_children:
        if item.type == "case_item":
            values = {each.id for each in item.children_by_field_name("value")}
            rest = [each for each in item.named_children if each.id not in values]
            printed = printed.joined(sequence(shell, rest, stdin, item))
    return printed


def _function_definition(shell: Shell, node: Node, stdin: Stream) -> Stream:
    name = shell.text_of(node.child_by_field_name("name"))
    body = node.child_by_field_name("body")
    if body is None:
        return NOTHING
    shell.functions[name] = (shell.source, body)
    text = shell.text_of(body)
    called = re.search(rf"(?<![\w$]){re.escape(name)}(?![\w(])", text)
    if called and re.search(r"\|(?!\|)|(?<!&)&(?!&|>)", text):
        shell.hide("fork", f"the function {name} starts itself again and again")
    return NOTHING


def _risky(item: str) -> bool:
    return item.startswith(("/", "~", "-", "..", ANY)) or item in (".", "*")


Statement = Callable[["Shell", Node, Stream], Stream]
STATEMENTS: Mapping[str, Statement] = {
    "list": _chain,
    "pipeline": _pipeline,
    "subshell": _subshell,
    "negated_command": _negated_command,
    "while_statement": _while_statement,
    "for_statement": _for_statement,
    "c_style_for_statement": _c_style_for_statement,
    "case_statement": _case_statement,
    "function_definition": _function_definition,
    "command": commands.command,
    "redirected_statement": commands.redirected_statement,
    "variable_assignment": commands.variable_assignment,
    "variable_assignments": commands.variable_assignments,
    "declaration_command": commands.declaration_command,
    "unset_command": commands.unset_command,
}
