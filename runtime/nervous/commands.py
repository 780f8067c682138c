"""A simple command of shell with its assignments and redirections, taken from the syntax tree."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from runtime.nervous.values import ANY, NOTHING, UNTOLD, Act, Stream
from runtime.nervous.words import MOST, Node, expand, one, raw

if TYPE_CHECKING:
    from runtime.nervous.shell import Shell

_SUBSTITUTED = ("command_substitution", "process_substitution")


def variable_assignment(shell: Shell, node: Node, stdin: Stream) -> Stream:
    """`x=1` alone."""
    assigned(shell, node)
    return NOTHING


def variable_assignments(shell: Shell, node: Node, stdin: Stream) -> Stream:
    """`x=1 y=2` alone."""
    return _all(shell, node, stdin)


def _all(shell: Shell, node: Node, stdin: Stream) -> Stream:
    for each in node.named_children:
        shell.walk(each, stdin)
    return NOTHING


def declaration_command(shell: Shell, node: Node, stdin: Stream) -> Stream:
    """`export`, `declare`, `local`."""
    refers = any(re.fullmatch(r"-[a-zA-Z]*n[a-zA-Z]*", shell.text_of(each)) for each in node.named_children)
    for each in node.named_children:
        if each.type == "variable_assignment" and refers and not shell.text_of(node).startswith("export"):
            name = shell.text_of(each.child_by_field_name("name"))
            shell.references[name] = one(shell, each.child_by_field_name("value"))
        elif each.type == "variable_assignment":
            assigned(shell, each)
        else:
            for fields in expand(shell, each):
                for text in fields:
                    name, equals, value = text.partition("=")
                    if equals:
                        shell.assign(name, ((value,),))
    return UNTOLD.tagged("environment")


def unset_command(shell: Shell, node: Node, stdin: Stream) -> Stream:
    """`unset x`."""
    for each in node.named_children:
        name = one(shell, each)
        shell.variables.pop(name, None)
        shell.note(Act("set", text=name, tags=frozenset({"unset"}), shown=f"unsets {name}"))
    return NOTHING


def assigned(shell: Shell, node: Node) -> str:
    """Set what an assignment sets; returns its name."""
    target = node.child_by_field_name("name")
    name = shell.text_of(target)
    value = node.child_by_field_name("value")
    grows = any(each.type == "+=" for each in node.children)
    values: tuple[tuple[str, ...], ...]
    if value is None:
        values = (("",),)
    elif value.type == "array":
        fields = [each for child in value.named_children for each in expand(shell, child)[0]]
        values = (tuple(fields),)
    else:
        values = tuple((" ".join(fields),) for fields in expand(shell, value))
    if target is not None and target.type == "subscript":
        name, values = name.partition("[")[0], ((ANY,),)
    if grows and name in shell.variables:
        before = shell.variables[name]
        if value is not None and value.type == "array":
            values = tuple((*old, *new) for old in before for new in values)[:MOST]
        else:
            values = tuple((" ".join(old) + " ".join(new),) for old in before for new in values)[:MOST]
    shell.assign(name, values)
    return name


def command(shell: Shell, node: Node, stdin: Stream) -> Stream:
    """A simple command."""
    return _simple(shell, node, [], stdin)


def redirected_statement(shell: Shell, node: Node, stdin: Stream) -> Stream:
    """A statement with redirections."""
    body = node.child_by_field_name("body")
    redirects = [each for each in node.children if each.type.endswith("_redirect")]
    if body is None or body.type == "command":
        return _simple(shell, body, redirects, stdin)
    inputs, outputs, _, rest = _redirected(shell, redirects)
    return _after(shell, shell.walk(body, stdin if inputs is None else inputs), outputs, rest)


def _simple(shell: Shell, node: Node | None, redirects: list[Node], stdin: Stream) -> Stream:
    from runtime.nervous.running import run

    words: list[Node] = []
    fresh: list[str] = []
    lost: list[str] = []
    saved = shell.variables
    if node is not None:
        shell.visited.add((node.start_byte, node.end_byte))
        saved = dict(shell.variables)
        lost = _left_out(shell, [*node.children, *redirects])
        for child in node.children:
            if child.type == "variable_assignment":
                fresh.append(assigned(shell, child))
            elif child.type.endswith("_redirect"):
                redirects = [*redirects, child]
            elif child.type not in (";", "&", "\n", "comment"):
                words.append(child)  # a lone `-` is a word too, if an unnamed one
    shell.found.spend(len(words) // 8)
    inputs, outputs, more, rest = _redirected(shell, redirects)
    alternatives: list[list[str]] = [[]]
    for word in _whole(words):
        choices = expand(shell, word[0]) if len(word) == 1 else raw(shell, _span(shell, word))
        alternatives = [[*each, *fields] for each in alternatives for fields in choices][: MOST * 2]
    printed = NOTHING
    for each in alternatives:
        line = [*each, *lost, *more]
        if line:
            printed = run(shell, line, stdin if inputs is None else inputs)
        elif inputs is not None:
            printed = inputs
    if fresh and words:
        shell.variables = saved
    return _after(shell, printed, outputs, rest)


def _left_out(shell: Shell, nodes: Sequence[Node]) -> list[str]:
    """Words that the parser has left out, such as the `-` of `cat - <<EOF`."""
    found: list[str] = []
    for one_node, other in pairwise(nodes):
        if other.start_byte > one_node.end_byte + 1:
            between = shell.source[one_node.end_byte : other.start_byte].decode("utf-8", "replace")
            for text in between.replace("\\\n", " ").split():
                found += raw(shell, text)[0]
    return found


def _span(shell: Shell, nodes: Sequence[Node]) -> str:
    return shell.source[nodes[0].start_byte : nodes[-1].end_byte].decode("utf-8", "replace")


def _after(shell: Shell, printed: Stream, outputs: list[tuple[str, bool]], rest: list[Node]) -> Stream:
    for path, append in outputs:
        shell.write(path, printed, append=append)
    printed = NOTHING if outputs else printed
    for node in rest:
        if node.type == "pipeline":
            for stage in stages(node):
                with shell.apart():
                    printed = shell.walk(stage, printed.tagged("piped"))
        else:
            printed = printed.joined(shell.walk(node, UNTOLD))
    return printed


def _redirected(
    shell: Shell, nodes: Sequence[Node]
) -> tuple[Stream | None, list[tuple[str, bool]], list[str], list[Node]]:
    """What comes in, where what is printed goes, words after a target, and what stands behind `<<EOF`."""
    inputs: Stream | None = None
    outputs: list[tuple[str, bool]] = []
    words: list[str] = []
    rest: list[Node] = []
    for node in nodes:
        if node.type == "herestring_redirect":
            value = node.named_children[-1] if node.named_children else None
            inputs = Stream(one(shell, value) + "\n")
        elif node.type == "heredoc_redirect":
            inputs = _heredoc(shell, node)
            inner = [each for each in node.named_children if each.type.endswith("_redirect")]
            more = _redirected(shell, inner)
            outputs += more[1]
            words += more[2]
            for at, each in enumerate(node.children):
                if not each.is_named or each.type.startswith("heredoc_") or each.type.endswith("_redirect"):
                    continue
                if each.type == "file_descriptor":
                    continue
                if node.field_name_for_child(at) == "argument":
                    words += expand(shell, each)[0]
                else:
                    rest.append(each)
        else:
            inputs = _file_redirect(shell, node, outputs, words) or inputs
    return inputs, outputs, words, rest


def _file_redirect(
    shell: Shell, node: Node, outputs: list[tuple[str, bool]], words: list[str]
) -> Stream | None:
    sign = next((each.type for each in node.children if not each.is_named), ">")
    targets = node.children_by_field_name("destination")
    fields = [each for target in targets for each in expand(shell, target)[0]]
    if not fields:
        return None
    words += fields[1:]  # `> file rm x`: the rest belongs to the command
    target = fields[0]
    descriptor = next((shell.text_of(each) for each in node.children if each.type == "file_descriptor"), "")
    if sign in (">&", "<&") and (target.isdigit() or target in ("-", "") or target.rstrip("-").isdigit()):
        return None
    if sign.startswith("<") and sign != "<>":
        return shell.read(target)
    if sign == "<>":
        shell.read(target)
        shell.touch("write", target, "writes")
    elif descriptor in ("", "1") or sign.startswith("&"):
        outputs.append((target, sign.endswith(">>")))
    else:
        shell.write(target, UNTOLD, append=True)
    return None


def _heredoc(shell: Shell, node: Node) -> Stream:
    start = next((shell.text_of(each) for each in node.children if each.type == "heredoc_start"), "")
    body = next((each for each in node.children if each.type == "heredoc_body"), None)
    if body is None:
        return NOTHING
    text = shell.text_of(body)
    if any(each.type == "<<-" for each in node.children):
        text = re.sub(r"(?m)^\t+", "", text)
    if re.search(r"[\"'\\]", start):
        return Stream(text)
    shell.look_into(body)
    if any(each.type in ("simple_expansion", "expansion", *_SUBSTITUTED) for each in body.named_children):
        pieces: list[str] = []
        at = body.start_byte
        for child in body.named_children:
            if child.type not in ("heredoc_content", "comment"):
                pieces += [
                    shell.source[at : child.start_byte].decode("utf-8", "replace"),
                    one(shell, child),
                ]
                at = child.end_byte
        pieces.append(shell.source[at : body.end_byte].decode("utf-8", "replace"))
        text = "".join(pieces)
    return Stream(text.replace("\\$", "$").replace("\\`", "`").replace("\\\n", "").replace("\\\\", "\\"))


def _whole(nodes: Sequence[Node]) -> list[list[Node]]:
    """The words of a command; what stands side by side without a blank is one word to a shell."""
    words: list[list[Node]] = []
    for node in nodes:
        if words and words[-1][-1].end_byte == node.start_byte:
            words[-1].append(node)
        else:
            words.append([node])
    return words


def stages(node: Node) -> Iterator[Node]:
    """The commands of a pipeline, in order."""
    for each in node.named_children:
        if each.type == "pipeline":
            yield from stages(each)
        elif each.type != "comment":
            yield each
