"""Discovery: which tools an agent knows, where it does not know all of them.

The known tools are a fold over the messages `grant` and `revoke`; nothing else stores them. Each of these
messages also is an entry of the journal of the system. `system/nervous/discovery.md` says what a new agent
knows, and what it is taught after escalations.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, cast

from kernel.document.frontmatter import NAME
from kernel.document.model import Document
from kernel.errors import ConfigurationError, UsageError, raised_as
from kernel.loop.run_context import overseen
from kernel.tools.tool import Tool, section
from runtime import pinned
from runtime.evolution.journal import Journal
from runtime.memory.store import Shelf
from runtime.nervous.messages import Message, Messages, exact_now, tier_of
from runtime.workspace.deciders import Decider
from runtime.workspace.settings import Config

Via = Literal["teaching", "escalation", "design", "person"]
"""How a tool is granted: by a reply of oversight, by a number of escalations, to its builder, by a person."""
FILE = "nervous/discovery.md"
PERSONS = ("terminal", "page", "program")
"""The kinds of deciders that may give back what a human has taken away: an agent may run commands."""


@dataclass(frozen=True)
class Rules:
    """The content of `system/nervous/discovery.md`."""

    start: frozenset[str]
    basic: Mapping[str, Sequence[str]]  # by category
    text: str

    @staticmethod
    def read(systems: Sequence[Path]) -> Rules:
        """The rules of the first system that has them. Raises `ConfigurationError`."""
        path = next((path for each in systems if (path := each / FILE).is_file()), None)
        if path is None:
            raise ConfigurationError(f"system/{FILE} is missing; it says which tools a new agent knows")
        import frontmatter

        with raised_as(ConfigurationError, str(path)):
            post = frontmatter.loads(pinned.read(path).decode("utf-8"))
            start, basic = post.metadata["start"], cast(Mapping[str, Any], post.metadata["basic"])
            names = {str(category): [str(each) for each in tools] for category, tools in basic.items()}
            return Rules(frozenset(map(str, cast(list[Any], start))), names, post.content)

    def words(self, heading: str, **slots: object) -> str:
        """What an agent is told with a grant: the text below this heading."""
        text = section(self.text, heading)
        for name, value in slots.items():
            text = text.replace(f"{{{{ {name} }}}}", str(value))
        return text


def decided(messages: Iterable[Message]) -> dict[str, Message]:
    """By tool, the grant or revocation that holds; a human's revocation is lifted by a human only."""
    held: dict[str, Message] = {}
    for message in sorted(messages, key=lambda each: (int(each.data.get("n", 0)), each.at, each.id)):
        tool = str(message.data["tool"])
        last = held.get(tool)
        if last and last.type == "revoke" and last.tier == "human" and message.tier != "human":
            continue
        held[tool] = message
    return held


class Discovery:
    """The known tools of the agents of one workspace."""

    def __init__(
        self,
        messages: Callable[[], Messages],
        systems: Sequence[Path],
        config: Config,
        journal: Journal,
        clock: Callable[[], str] = exact_now,
    ) -> None:
        self._messages, self.systems, self.config, self.journal = messages, systems, config, journal
        self.clock = clock
        self._mark: Any = None
        self._decided: dict[str, dict[str, Message]] = {}  # by agent

    @cached_property
    def rules(self) -> Rules:
        """What a new agent knows, and what it is taught."""
        return Rules.read(self.systems)

    @property
    def messages(self) -> Messages:
        """The store of messages."""
        return self._messages()

    def decided(self, agent: str) -> Mapping[str, Message]:
        """By tool, the grant or revocation that holds for an agent."""
        shelf: Shelf = self.messages.shelf
        mark, changed = shelf.news(self._mark)
        if changed is None or any(kind == Message.KIND for kind, _ in changed):
            self._decided = {}
        self._mark = mark
        if agent not in self._decided:
            self._decided[agent] = decided(self._changes(to=agent))
        return self._decided[agent]

    def _changes(self, **where: Any) -> list[Message]:
        """The grants and revocations of tools with these fields, oldest first."""
        found = [each for type in ("grant", "revoke") for each in self.messages.all(type=type, **where)]
        return sorted((each for each in found if "tool" in each.data), key=lambda each: each.at)

    def held(self, agent: str = "") -> list[Message]:
        """The grants and revocations that hold, of one agent or of all, oldest first."""
        agents = [agent] if agent else sorted({each.to for each in self._changes()})
        held = [each for name in agents for each in self.decided(name).values()]
        return sorted(held, key=lambda each: (each.at, each.to, str(each.data["tool"])))

    def knows(self, agent: str) -> set[str]:
        """The names that an agent knows where discovery is progressive."""
        known = set(self.rules.start)
        for tool, message in self.decided(agent).items():
            (known.add if message.type == "grant" else known.discard)(tool)
        return known

    def revoked(self, agent: str = "") -> set[str]:
        """The names that were taken from an agent and not given back."""
        held = self.decided(agent or self.config.agent)
        return {tool for tool, message in held.items() if message.type == "revoke"}

    def known(self, tools: Collection[str], agent: str = "") -> set[str]:
        """Those of these tools that an agent knows; where discovery is open, all that were not revoked."""
        agent = agent or self.config.agent
        if self.config.discovery == "open":
            return set(tools) - self.revoked(agent)
        return self.knows(agent) & set(tools)

    def hidden(self, tools: Mapping[str, Tool], document: Document) -> set[str]:
        """The tools that a loop may not know. What was revoked is hidden from every loop.

        A loop of oversight knows all others but those that would ask oversight again. A loop knows the tool
        that it is the loop of, and what its run has drafted.
        """
        if overseen(document):
            names = {name for name, tool in tools.items() if tool.oversight}
        else:
            known = self.known(tools)
            names = {name for name, tool in tools.items() if name not in known and not tool.draft}
        return (names - {document.meta.type}) | (self.revoked() & tools.keys())

    def undecided(self, tool: str, agent: str) -> bool:
        """Whether an agent does not know a tool, and nobody has granted it, or taken it away, before."""
        return tool not in self.rules.start and tool not in self.decided(agent)

    def grant(
        self, tool: str, agent: str, via: Via, by: Decider, why: str, about: Sequence[str] = (), **fields: Any
    ) -> Message | None:
        """Let an agent know a tool; None if it does already, or a human has taken the tool from it.

        With `about` the same grant is made once.
        """
        last = self.decided(agent).get(tool)
        if last.type == "grant" if last else tool in self.rules.start:
            return None
        if last and last.tier == "human" and by.kind not in (*PERSONS, Decider.read(last.data).kind):
            return None
        return self._write("grant", tool, agent, by, why, via, last, about, **fields)

    def revoke(self, tool: str, agent: str, by: Decider, why: str) -> Message:
        """Take a tool from an agent. Raises `UsageError` if it does not know it."""
        if not self.known({tool}, agent):
            raise UsageError(f"agent {agent} does not know {tool}; `fractal grant {agent}` lists its tools")
        last = self.decided(agent).get(tool)
        return self._write("revoke", tool, agent, by, why, "person", last)

    def _write(
        self,
        type: Literal["grant", "revoke"],
        tool: str,
        agent: str,
        by: Decider,
        why: str,
        via: Via,
        last: Message | None,
        about: Sequence[str] = (),
        **fields: Any,
    ) -> Message:
        if not NAME.fullmatch(agent):
            raise UsageError(f"{agent!r} is no name of an agent")
        n = int(last.data.get("n", 0)) + 1 if last else 1
        message = self.messages.write(
            *about,
            stream="guidance",
            type=type,
            tier=tier_of(by),
            sender=by.name or by.kind,
            to=agent,
            text=why or f"{type} {tool}",
            at=self.clock(),
            data={"tool": tool, "by": by.values, "via": via, "n": n},
            **fields,
        )
        self.record()
        return message

    def record(self) -> None:
        """Write what the journal lacks of the grants and revocations: a process may have died before."""
        found = self._changes()
        with self.messages.shelf.transaction():  # one process at a time
            recorded = {entry.message for entry in self.journal.entries()}
            for message in found:
                if message.id not in recorded:
                    self.journal.change(
                        "granted" if message.type == "grant" else "revoked",
                        f"tools/{message.data['tool']}",
                        {},
                        str(Decider.read(message.data)),
                        f"{message.to}, {message.data.get('via', '')}: {message.text}",
                        agent=message.to,
                        via=str(message.data.get("via", "")),
                        message=message.id,
                    )

    def designed(self, tools: Mapping[str, Tool]) -> None:
        """Grant agents what they have built and the system has admitted; called again, it changes nothing."""
        self.record()
        for entry in self.journal.entries():
            name = Path(entry.unit).stem
            if entry.kind == "admitted" and entry.agent and name in tools:
                by, why = Decider("policy", "built it"), f"built by run {entry.run}"
                about = ("design", entry.agent, name, entry.run)
                self.grant(name, entry.agent, "design", by, why, about, run=entry.run)
