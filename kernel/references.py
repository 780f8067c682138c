"""Results of earlier steps put into arguments: `{{ steps[N].result | filter }}` and nothing else.

Each reference is evaluated on its own in a sandboxed expression; the argument around it is never rendered,
so a literal such as `${{ matrix.python }}` survives. A result is never searched for references.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from functools import cache
from typing import Any, Protocol, cast

from kernel.errors import OperationFailed
from kernel.phases import REFERENCE

_ESCAPED = re.compile(r"\\(\{\{\s*steps\[)")


class StepView(Protocol):
    """What a reference can see of a step."""

    @property
    def result(self) -> str:
        """The whole text that the step returned."""
        ...

    @property
    def evidence(self) -> Mapping[str, Any]:
        """What the kernel recorded beside it."""
        ...


def substitute(value: Any, steps: Mapping[int, StepView]) -> Any:
    """A copy of `value` with each reference in it replaced; raises `OperationFailed` when one fails."""
    if isinstance(value, str):
        if "{{" not in value:
            return value
        filled = REFERENCE.sub(lambda hit: _evaluate(hit[0], steps), value)
        return _ESCAPED.sub(r"\1", filled) if "\\" in value else filled
    if isinstance(value, dict):
        return {key: substitute(each, steps) for key, each in cast(dict[str, Any], value).items()}
    if isinstance(value, list):
        return [substitute(each, steps) for each in cast(list[Any], value)]
    return value


def _evaluate(reference: str, steps: Mapping[int, StepView]) -> str:
    from jinja2.exceptions import TemplateError  # imported only where a plan has references

    try:
        return str(_environment().from_string(reference).render(steps=steps))
    except (TemplateError, ArithmeticError, LookupError, TypeError, ValueError, AttributeError) as error:
        raise OperationFailed(f"{reference} cannot be filled in: {error}") from None


@cache
def _environment() -> Any:
    from jinja2 import StrictUndefined
    from jinja2.exceptions import SecurityError
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    class Bounded(ImmutableSandboxedEnvironment):
        """Multiplication and powers could fill the memory from one short expression."""

        intercepted_binops = frozenset({"*", "**"})

        def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
            raise SecurityError(f"the operator {operator} is not allowed in a reference")

    environment = Bounded(undefined=StrictUndefined, keep_trailing_newline=True)
    cast(dict[str, Any], environment.filters)["sh"] = lambda text: shlex.quote(str(text))  # type: ignore[misc]
    return environment
