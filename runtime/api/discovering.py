"""Which tools an agent knows: asked from Python, by the tool `discover-tools`, changed by grants."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from kernel.errors import UsageError
from kernel.tools.operations import Result
from kernel.tools.tool import Tool
from runtime.workspace.deciders import Decider

if TYPE_CHECKING:
    from kernel.loop.run_context import RunContext
    from runtime.api.fractal import Fractal
    from runtime.nervous.messages import Message


def known(fractal: Fractal, tools: Mapping[str, Tool], agent: str) -> list[Tool]:
    """Those of these tools that an agent knows, the first ones of an index first."""
    names = _of(fractal, agent).discovery.known(tools)
    return sorted((tools[name] for name in names), key=lambda tool: (tool.rank, tool.name))


def _of(fractal: Fractal, agent: str) -> Fractal:
    """The same folder with the settings of that agent."""
    return fractal if agent in ("", fractal.config.agent) else fractal.anew(agent=agent)


def grant(fractal: Fractal, tool: str, agent: str, by: Decider, why: str) -> Message | None:
    """Let an agent know a tool; None if it does already.

    Raises `UsageError` if there is no such tool, or a person has taken it away and this is none.
    """
    catalogue = fractal.catalogue()
    if tool not in catalogue.tools:
        raise UsageError(catalogue.unknown(tool))
    named, discovery = agent or fractal.config.agent, _of(fractal, agent).discovery
    made = discovery.grant(tool, named, "person", by, why)
    if made is None and not discovery.known({tool}, named):
        raise UsageError(
            f"a person took {tool} from agent {named}; only a person at a terminal gives it back"
        )
    return made


def revoke(fractal: Fractal, tool: str, agent: str, by: Decider, why: str) -> None:
    """Take a tool from an agent. Raises `UsageError` if there is no such tool, or the agent lacks it."""
    catalogue, of_agent = fractal.catalogue(), _of(fractal, agent)
    held = of_agent.discovery.decided(of_agent.config.agent)
    if tool not in catalogue.tools and tool not in held:
        raise UsageError(catalogue.unknown(tool))
    of_agent.discovery.revoke(tool, of_agent.config.agent, by, why)


async def act(fractal: Fractal, run_context: RunContext | None, args: Mapping[str, Any]) -> Result:
    """The tool `discover-tools`."""
    tools = run_context.catalogue.tools if run_context else fractal.catalogue().tools
    found = known(fractal, tools, "")
    lines = [f"The agent {fractal.config.agent} knows {len(found)} of {len(tools)} tools:"]
    return Result("\n".join([*lines, *(f"- {tool.line}" for tool in found)]))
