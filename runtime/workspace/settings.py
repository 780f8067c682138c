"""Settings: flags, then `FRACTAL_*`, then `fractal.yaml`, then the user's own file, then the defaults.

Every threshold has a name, a default and a place here; docs/configuration.md is generated from this file.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    field_validator,
    model_validator,
)

from kernel.document.frontmatter import NAME
from kernel.errors import ConfigurationError, explained
from kernel.loop.budget import Bounds
from runtime import addresses, user_files
from runtime.plugins import EMBEDDERS, installed
from runtime.sandbox.hooks import Hook, Hooks
from runtime.sandbox.limits import Limits
from runtime.secrets.known import learn_secrets
from runtime.variables import unquoted
from runtime.workspace.workspace import POSTGRES, settings_files

if TYPE_CHECKING:
    from kernel.asking.responder import Ladder
    from kernel.loop.run_context import Policy

Profile = Literal["compact", "standard", "large"]
SCALE: Mapping[str, int] = {"compact": 1, "standard": 4, "large": 16}
"""How much the work context grows for a model of 8k, 32k and 128k tokens."""
_DEFAULTS = Bounds()
_LIMITS = Limits()


class Price(BaseModel):
    """What a model costs, in USD for a million tokens."""

    model_config = ConfigDict(extra="forbid")

    input: float = Field(0.0, ge=0, allow_inf_nan=False)
    output: float = Field(0.0, ge=0, allow_inf_nan=False)


Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class Timeouts(BaseModel):
    """Limits of one call of a model, in seconds."""

    model_config = ConfigDict(extra="forbid")

    connect: Seconds = 5.0
    first_token: Seconds = 90.0
    idle: Seconds = 30.0
    total: Seconds = 600.0


SMALLEST_WINDOW, LARGEST_WINDOW = 256, 100_000_000
"""Tokens that a model's window may have."""
_CONTEXT = "tokens of a prompt and its reply together; null: by its server or the table of models"
_SEES = "whether it is shown pictures; null: by the table of models, or its name"
_TIMEOUT = (
    "seconds for one call, or its limits {connect: 5, first_token: 90, idle: 30, total: 600}; null: these; "
    "`llama:` has none"
)


Address = Annotated[str, AfterValidator(lambda text: addresses.normal(text) if text else text)]
_KEY_COMMAND = "program that prints the key, with its arguments; it runs without a shell"
_HEADERS = "headers of its requests, by name; `${NAME}` is a variable of the environment"


class Rung(BaseModel):
    """One rung of the ladder."""

    model_config = ConfigDict(extra="forbid")

    model: str = Field(description="`reflex`, `person`, or a model as `--model` takes it")
    tier: Literal["worker", "oversight"] = Field(
        "worker", description="it plans and acts, or it reviews that and takes over what a worker cannot do"
    )
    api_base: Address | None = Field(
        None, description="address of a server that speaks the provider's protocol"
    )
    key_command: str | tuple[str, ...] = Field((), description=_KEY_COMMAND)
    headers: dict[str, str] = Field(default_factory=dict, description=_HEADERS)
    price: Price | None = Field(None, description="USD for a million tokens, where none is known")
    context: int | None = Field(None, ge=SMALLEST_WINDOW, le=LARGEST_WINDOW, description=_CONTEXT)
    sees: bool | None = Field(None, description=_SEES)
    timeout: Seconds | Timeouts | None = Field(None, description=_TIMEOUT)
    phases: tuple[Literal["turn", "do", "check"], ...] = Field(
        (), description="what it may be asked for (turn, do, check); empty: all"
    )
    lifeforce: float | None = Field(
        None, ge=0, allow_inf_nan=False, description="of a call, where the agent has a pool; of a model 1"
    )
    options: dict[str, Any] = Field(default_factory=dict, description="passed on to the responder")

    @field_validator("phases", mode="before")
    @classmethod
    def _earlier_names(cls, value: Any) -> Any:
        """Settings of earlier versions name two parts of the turn."""
        if not isinstance(value, list | tuple):
            return value
        named = ["turn" if each in ("understand", "plan") else each for each in cast(Sequence[Any], value)]
        return tuple(dict.fromkeys(named))


class Pool(BaseModel):
    """The lifeforce of an agent: how much there is at most, and how time restores it."""

    model_config = ConfigDict(extra="forbid")

    capacity: float = Field(gt=0, allow_inf_nan=False)
    per_hour: float = Field(ge=0, allow_inf_nan=False)
    per_run: float | None = Field(None, gt=0, allow_inf_nan=False)


class HookSetting(BaseModel):
    """A command that runs before or after calls, or at the end of a run."""

    model_config = ConfigDict(extra="forbid")

    command: str = Field(min_length=1)
    tools: tuple[str, ...] = ()  # names, or patterns such as mcp-*; empty: all
    seconds: float = Field(30.0, gt=0, le=600)


class HookSettings(BaseModel):
    """The commands of each moment, in their order."""

    model_config = ConfigDict(extra="forbid")

    before: tuple[HookSetting, ...] = ()
    after: tuple[HookSetting, ...] = ()
    end: tuple[HookSetting, ...] = ()

    def made(self) -> Hooks:
        """The hooks as a run uses them."""
        return Hooks(
            *(tuple(Hook(**dict(each)) for each in of) for of in (self.before, self.after, self.end))
        )


class Approved(BaseModel):
    """One exact call that needs no further approval here, with what it was seen to do."""

    model_config = ConfigDict(extra="forbid")

    tool: str
    args: dict[str, Any] = Field(default_factory=dict)
    effects: tuple[Literal["read", "write", "network", "shell"], ...] = ()
    dangers: tuple[str, ...] = ()
    folder: str = "."
    files: dict[str, str] | None = None


class Config(BaseModel):
    """All settings, each with its default."""

    model_config = ConfigDict(extra="forbid")

    model: str | None = Field(
        None,
        description="the model: `openai/…` and others (docs/using-a-model.md), `llama:PATH.gguf`, `mailbox`, "
        "`replay:RUN`, `scripted:FILE` or `reflex`",
    )
    api_base: Address | None = Field(None, description="address of the model's server")
    key_command: str | tuple[str, ...] = Field((), description=f"of `model`: {_KEY_COMMAND}")
    headers: dict[str, str] = Field(default_factory=dict, description=f"of `model`: {_HEADERS}")
    ca_bundle: str | None = Field(
        None,
        description="file or folder of certificates (PEM) that model servers may have beside the usual ones",
    )
    price: Price | None = Field(None, description="price of `model`, where none is known")
    context: int | None = Field(
        None, ge=SMALLEST_WINDOW, le=LARGEST_WINDOW, description=f"of `model`: {_CONTEXT}"
    )
    sees: bool | None = Field(None, description=f"of `model`: {_SEES}")
    timeout: Seconds | Timeouts | None = Field(None, description=f"of `model`: {_TIMEOUT}")
    ladder: tuple[Rung, ...] = Field(
        (), description="the rungs, cheapest first; empty: reflex, then `model`, then a person"
    )
    profile: Profile = Field("compact", description="work context for a model of 8k, 32k or 128k tokens")
    check: Literal["auto", "always"] = Field(
        "auto", description="`auto`: no model call in CHECK where commands or files prove every criterion"
    )
    sandbox: Literal["auto", "bwrap", "off"] = Field(
        "auto", description="where commands run; `off` runs them without a sandbox"
    )
    network: bool = Field(False, description="whether commands in the sandbox may use the network")
    process_mb: int = Field(_LIMITS.process_mb, ge=16, description="memory of one process of a command")
    memory_mb: int = Field(
        _LIMITS.memory_mb,
        ge=16,
        description="memory of a command with all that it starts; at most 4/5 of all",
    )
    processes: int = Field(_LIMITS.processes, ge=1, description="processes of a command at once")
    file_mb: int = Field(_LIMITS.file_mb, ge=1, description="the largest file that a command may write")
    disk_mb: int = Field(
        _LIMITS.disk_mb, ge=1, description="by which the folder's disk may fill up during one command"
    )
    files: int = Field(
        _LIMITS.files, ge=1, description="by which the files on that disk may grow during one command"
    )
    scratch_mb: int = Field(
        _LIMITS.scratch_mb,
        ge=1,
        description="of each folder that is in memory for a command: /tmp, /var/tmp, /dev/shm, its home",
    )
    approve: tuple[Literal["read", "write", "network", "shell"], ...] = Field(
        (), description="effects that need a person's approval before each step"
    )
    review: Literal["auto", "off", "risky", "always"] = Field(
        "auto",
        description="which plans of a worker oversight sees before they start: `risky` ones, `always` all, "
        "`auto` risky ones if the ladder has a rung with `tier: oversight`; it also answers questions first; "
        "with `auto` and `off`, a lone model is no oversight, and a person answers what it escalates",
    )
    discovery: Literal["open", "progressive"] = Field(
        "open",
        description="which tools an agent knows: all, or those of `system/nervous/discovery.md` and what was "
        "granted to it since",
    )
    staged_until: Literal["approval", "use", "gates"] = Field(
        "use",
        description="what lets agents know what was staged as read: approval by oversight or a person, "
        "`use` also that it helped in 3 accepted runs, `gates` also that it has a source, is plain and "
        "contradicts nothing",
    )
    patience: float = Field(
        86_400,
        gt=0,
        allow_inf_nan=False,
        description="seconds that a run waits for a reply before `unanswered` applies",
    )
    unanswered: Literal["wait", "reject", "cancel"] = Field(
        "wait",
        description="what the beat does then: `reject` rejects a plan or step (a question waits on), "
        "`cancel` ends the run",
    )
    approved: tuple[Approved, ...] = Field(
        (), description="exact calls that need no further approval; `fractal approve --always` adds them"
    )
    trusted_clients: tuple[str, ...] = Field(
        (), description="clients, by the names that they give, that may approve of serious dangers"
    )
    max_depth: int = Field(
        _DEFAULTS.max_depth, ge=0, le=8, description="from this depth on a loop is one operation"
    )
    retries: int = Field(_DEFAULTS.retries, ge=0, le=10, description="attempts after the first")
    turns: int = Field(_DEFAULTS.turns, ge=1, description="turns of a loop that decides its steps one by one")
    questions: int = Field(_DEFAULTS.questions, ge=0, description="that a run may ask a person")
    calls: int = Field(_DEFAULTS.calls, ge=1, description="model calls a run")
    tokens: int = Field(_DEFAULTS.tokens, ge=1, description="prompt and completion tokens a run")
    usd: float | None = Field(
        _DEFAULTS.usd, ge=0, allow_inf_nan=False, description="cost a run; null lifts the limit"
    )
    seconds: float = Field(
        _DEFAULTS.seconds,
        gt=0,
        le=31_536_000,
        allow_inf_nan=False,
        description="of activity a run; waiting for a person does not count",
    )
    context_system: int = Field(
        _DEFAULTS.context_system, ge=0, description="tokens of work context at depth 0"
    )
    context_tool: int = Field(_DEFAULTS.context_tool, ge=0, description="tokens of work context at depth 1")
    context_operation: int = Field(
        _DEFAULTS.context_operation, ge=0, description="tokens of work context deeper down"
    )
    min_context: int = Field(_DEFAULTS.min_context, ge=0, description="a loop with less starts no subtasks")
    side_by_side: int = Field(
        _DEFAULTS.side_by_side, ge=1, le=64, description="steps of a loop at the same time"
    )
    repairs: int = Field(
        _DEFAULTS.repairs, ge=0, le=5, description="times that a reply of the wrong form is asked for again"
    )
    reply_tokens: int = Field(
        _DEFAULTS.reply_tokens, ge=64, description="the longest reply that is asked for"
    )
    result_chars: int = Field(
        _DEFAULTS.result_chars, ge=200, description="of a result that stand in the document"
    )
    same_failure: int = Field(_DEFAULTS.same_failure, ge=1, description="times that the same call may fail")
    same_result: int = Field(
        _DEFAULTS.same_result,
        ge=1,
        description="times that a call may come to the same while nothing new is done",
    )
    fsync: bool = Field(True, description="whether every write reaches the disk before the run goes on")
    keep_prompts: bool = Field(
        True, description="whether each prompt sent to a model is kept in `prompts/` of its run, for people"
    )
    shipped: bool = Field(
        True, description="whether the shipped instructions stand behind the workspace's own `system/`"
    )
    recall: bool = Field(
        True, description="whether a task that was solved before is done as it was then, without a model"
    )
    remember: bool = Field(True, description="whether memory keeps what accepted runs taught")
    observe: tuple[Literal["facts", "results", "failures", "reflections"], ...] = Field(
        ("facts", "results", "failures", "reflections"),
        description="what memory notes of every run by itself: what its person stated (`facts`), what it "
        "came to (`results`), why it failed (`failures`), which of its plans did not hold (`reflections`); "
        "nothing without `remember`",
    )
    snapshot_every: int = Field(
        50, ge=0, description="problems after which a line of figures of memory is kept; 0: none"
    )
    checkpoints: int = Field(
        5,
        ge=0,
        description="copies of memory that are kept in `state/checkpoints/`; 0: none are made by itself",
    )
    checkpoint_hours: float = Field(
        6,
        ge=0,
        allow_inf_nan=False,
        description="hours after which `fractal serve` makes one where memory has changed; 0: never",
    )
    shown: tuple[Literal["facts and files", "patterns", "similar tasks", "others", "way"], ...] = Field(
        ("facts and files", "patterns", "similar tasks", "others", "way"),
        description="what of memory a prompt shows: facts and files that the task needs, learned patterns, "
        "how tasks like it were done, what others do now, the way of asking that suits its type; nothing "
        "without `recall`",
    )
    learn: Literal["auto", "model", "off"] = Field(
        "auto",
        description="whether runs that went well and runs that did not are compared for patterns: `auto` by "
        "statistics, `model` asks a model too where these find nothing; nothing without `remember`",
    )
    agent: str = Field(
        "default",
        pattern=NAME.pattern,
        description="who works here: what it learns is its own until others do the same with success",
    )
    agents: dict[str, dict[str, Any]] = Field(
        default_factory=dict,
        description="settings of named agents, such as `reviewer: {model: …}`: they hold before the file's",
    )
    lifeforce: Pool | None = Field(
        None,
        description="the agent's lifeforce, such as `{capacity: 100, per_hour: 20, per_run: 40}` "
        "(docs/oversight.md); null: it is not counted",
    )
    space: str = Field(
        "default",
        pattern=NAME.pattern,
        description="the memory that is used: `default` is `state/memory`, NAME `state/spaces/NAME/memory`",
    )
    store: str = Field(
        "sqlite",
        description="where memory is kept: `sqlite` in `state/memory/brain.sqlite3`, `files` as JSON in "
        "`state/memory/brain/`, `postgres:NAME` in PostgreSQL (docs/memory-store.md), `memory` nowhere "
        "beyond the process",
    )
    embedder: str = Field(
        "auto",
        description="what makes vectors of texts: `auto` (minilm where its weights are, else lexical), "
        "`lexical`, `minilm`, `sentence:MODEL` or a plugin",
    )
    embedder_folder: str | None = Field(None, description="the folder with the weights of minilm")
    admit: Literal["auto", "ask"] = Field(
        "auto", description="whether what a run has built and tested is active at once, or a proposal"
    )
    quarantine_after: int = Field(
        3, ge=1, description="failures in a row after which a tool that was built here is quarantined"
    )
    build: Literal["ask", "auto", "never"] = Field(
        "ask", description="whether a need that no tool covers leads to a proposal, to a tool, or to nothing"
    )
    skills: tuple[str, ...] = Field(
        (), description="Agent Skills beside `system/tools`, or folders of them; relative to fractal.yaml"
    )
    skill_folders: tuple[str, ...] = Field(
        (".claude/skills", ".agents/skills"),
        description="folders of Agent Skills that are found by themselves, in the folder and its git root",
    )
    hooks: HookSettings | None = Field(
        None,
        description="commands before and after calls and at the end of a run, such as "
        "`{after: [{command: 'ruff format -q .', tools: [edit, write]}]}` (docs/hooks.md)",
    )
    user_skills: tuple[str, ...] = Field(
        ("~/.config/fractal/skills", "~/.claude/skills"),
        description="your own folders of Agent Skills, which are found in every folder after those",
    )
    instructions: tuple[str, ...] = Field(
        ("AGENTS.md", "CLAUDE.md"),
        description="files of guidance for models: the first one in the folder, else in the nearest folder "
        "above it in its git repository; empty: none",
    )
    otel: str | None = Field(
        None,
        description="where traces of runs are sent: the address of an OTLP collector such as "
        "`http://localhost:4318`, or `env`, which takes it from `OTEL_EXPORTER_OTLP_ENDPOINT`; null: nowhere "
        "(docs/telemetry.md)",
    )
    otel_content: bool = Field(
        False, description="whether traces have the texts of tasks, replies, calls and results"
    )
    operations: dict[str, dict[str, Any]] = Field(
        default_factory=dict,
        description="settings of operations, by name, such as `fetch: {allow_private: true}`",
    )

    @field_validator("embedder")
    @classmethod
    def _known(cls, value: str) -> str:
        """A shipped embedder, or one of an installed plugin."""
        own = value in ("auto", "lexical", "minilm") or re.fullmatch("sentence:.+", value)
        if not own and value.partition(":")[0] not in installed(EMBEDDERS):
            raise ValueError(
                f"{value!r} is not auto, lexical, minilm or sentence:MODEL, and no plugin has that name"
            )
        return value

    @field_validator("store")
    @classmethod
    def _one_of(cls, value: str) -> str:
        if value in ("sqlite", "files", "memory") or (
            value.startswith(POSTGRES) and NAME.fullmatch(value.removeprefix(POSTGRES))
        ):
            return value
        raise ValueError(
            f"{value!r} is not sqlite, files, memory or postgres:NAME (small letters, digits, hyphens)"
        )

    @field_validator("otel")
    @classmethod
    def _address(cls, value: str | None) -> str | None:
        if value in (None, "env") or re.fullmatch(r"https?://[^\s/?#]+[^\s?#]*", value or ""):
            return value
        raise ValueError(f"{value!r} is not env and no address such as http://localhost:4318")

    @field_validator("sandbox", "review", mode="before")
    @classmethod
    def _off_is_a_word(cls, value: Any) -> Any:
        """YAML reads a bare `off` as false."""
        return "off" if value is False else value

    @field_validator("skill_folders", "instructions")
    @classmethod
    def _inside(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        for name in names:
            if Path(name).is_absolute() or ".." in Path(name).parts:
                raise ValueError(f"{name}: give a path below the folder")
        return names

    @model_validator(mode="after")
    def _phases_are_a_models(self) -> Config:
        for rung in self.ladder:
            if rung.model not in ("reflex", "person"):
                continue
            if rung.phases:
                raise ValueError(f"ladder: {rung.model} cannot be limited to phases; leave them out")
            if rung.lifeforce:
                raise ValueError(f"ladder: {rung.model} costs no lifeforce; leave it out")
        return self

    def bounds(self) -> Bounds:
        """The kernel's bounds, with the work context scaled by the profile."""
        scale = SCALE[self.profile]
        names = {name for name in Bounds.__dataclass_fields__ if name in Config.model_fields} - {"lifeforce"}
        values = {name: getattr(self, name) for name in names}
        for name in ("context_system", "context_tool", "context_operation"):
            values[name] *= scale
        return Bounds(**values)

    def hooks_of_run(self) -> Hooks:
        """The commands before and after calls and at the end."""
        return self.hooks.made() if self.hooks else Hooks()

    def pool_of(self, agent: str) -> Pool | None:
        """The pool of an agent's lifeforce; None if it is not counted. Raises `ConfigurationError`."""
        own = {name: each["lifeforce"] for name, each in self.agents.items() if each.get("lifeforce")}
        if agent in own:
            _check(f"agents.{agent}", {"lifeforce": own[agent]})
            return Pool.model_validate(own[agent])
        return None if agent != self.agent and self.agent in own else self.lifeforce

    def review_on(self, ladder: Ladder) -> str:
        """Which plans are reviewed on this ladder: `risky`, `always` or `off`."""
        if self.review != "auto":
            return self.review
        return "risky" if any(rung.tier == "oversight" for rung in ladder) else "off"

    def limits(self) -> Limits:
        """What one command may take of the machine."""
        return Limits(**{name: getattr(self, name) for name in Limits.__dataclass_fields__})

    def policy(
        self, *, plan_only: bool = False, yes: bool = False, assume: Mapping[str, str] | None = None
    ) -> Policy:
        """What the person who starts or resumes a run has decided."""
        from kernel.loop.run_context import ApprovedCall, Policy

        return Policy(
            self.check,
            tuple(self.approve),
            yes,
            plan_only,
            assume or {},
            self.network,
            dict(self.operations),
            self.trusted_clients,
            tuple(ApprovedCall(**dict(call)) for call in self.approved),
        )


_NO_SETTINGS = frozenset(
    {
        "FRACTAL_DATA",
        "FRACTAL_DEBUG",
        "FRACTAL_POSTGRES",
        "FRACTAL_NIGHT",
        "FRACTAL_SYSTEM",
        "FRACTAL_TOKEN",
        "FRACTAL_TRUST",
    }
)
"""Variables of Fractal that are not settings."""
ALMOST = 0.75
"""How alike the name of an agent is to another one that it is probably meant to be."""
_WHO = frozenset({"model", "ladder"})
"""What says who answers: the highest layer that names one of these decides for both."""


def user_file() -> Path:
    """The user's own configuration file (XDG)."""
    return user_files.user_folder() / "fractal.yaml"


def load(root: Path, flags: Mapping[str, Any]) -> tuple[Config, dict[str, str]]:
    """The effective settings, and where each comes from; raises `ConfigurationError` that names the place.

    Who answers is one decision: the highest layer that names `model` or `ladder` makes it.
    """
    values: dict[str, Any] = {}
    sources: dict[str, str] = {}
    layers: list[tuple[str, Mapping[str, Any]]] = [
        *((str(path), read(path, root)) for path in (user_file(), *settings_files(root))),
        ("FRACTAL_*", _environment()),
        ("flag", {key: value for key, value in flags.items() if value is not None}),
    ]
    for source, layer in _with_agent(layers):
        _check(source, layer)
        if any(layer.get(key) for key in _WHO):  # then what a lower layer says of both does not hold
            for key in _WHO:
                values.pop(key, None)
                sources.pop(key, None)
        for key, value in layer.items():
            # skills for one run, and the calls that a folder approves, are in addition to the lower layers'
            more = key == "approved" or (key == "skills" and source == "flag")
            earlier: Sequence[Any] = values.get(key, ()) if more else ()
            values[key] = [*earlier, *(each for each in value if each not in earlier)] if more else value
            sources[key] = f"FRACTAL_{key.upper()}" if source == "FRACTAL_*" else source
    config = Config.model_validate(values)
    _refuse_misspelt(config, sources.get("agent", ""))
    return config, {name: sources.get(name, "default") for name in Config.model_fields}


def _refuse_misspelt(config: Config, source: str) -> None:
    """Raise for an agent that no settings name and whose name is almost that of one they do."""
    names = {str(Config.model_fields["agent"].default), *config.agents}
    digits = str.maketrans("", "", "0123456789")
    others = [each for each in names if each.translate(digits) != config.agent.translate(digits)]
    if config.agent not in names and (near := _near(config.agent, others, ALMOST)):
        hint = f"did you mean {near[0]}? Name a new agent in fractal.yaml, under `agents`"
        raise ConfigurationError(f"{source}: there is no agent {config.agent}; {hint}")


def _with_agent(layers: Sequence[tuple[str, Mapping[str, Any]]]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The layers, with the settings of the agent that is named behind the files: flags still come last."""
    agent = next((layer["agent"] for _, layer in reversed(layers) if layer.get("agent")), "")
    for source, layer in layers:
        yield source, layer
        agents = layer.get("agents")
        own = agents.get(agent) if agent and isinstance(agents, Mapping) else None
        if isinstance(own, Mapping):
            if "agents" in own or "agent" in own:
                raise ConfigurationError(f"{source}: agents.{agent}: an agent names no other agents")
            yield f"{source}: agents.{agent}", own


def _check(source: str, layer: Mapping[str, Any]) -> None:
    try:
        Config.model_validate(dict(layer))
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(map(str, first["loc"]))
        if first["type"] == "extra_forbidden":
            near = _near(name, Config.model_fields)
            hint = f"; did you mean {near[0]}?" if near else "; `fractal config` lists all"
            raise ConfigurationError(f"{source}: there is no setting {name}{hint}") from None
        why = first["msg"].removeprefix("Value error, ")  # pydantic's words before those of a validator
        raise ConfigurationError(f"{source}: {name}: {why}") from None


def _near(name: str, names: Iterable[str], cutoff: float = 0.6) -> list[str]:
    """The nearest of these names, where one is near."""
    import difflib

    return difflib.get_close_matches(name, list(names), 1, cutoff)


def misspelt() -> dict[str, str]:
    """Variables of the environment that name no setting, each with the variable that was probably meant."""
    prefix = "FRACTAL_"
    valid = {prefix + name.upper() for name in Config.model_fields} | _NO_SETTINGS
    strange = sorted(name for name in os.environ if name.startswith(prefix) and name not in valid)
    nearest = {name: _near(name.removeprefix(prefix).lower(), Config.model_fields) for name in strange}
    return {name: prefix + near[0].upper() for name, near in nearest.items() if near}


def read(path: Path, root: Path) -> Mapping[str, Any]:
    """The settings in a file; paths of skills in one next to the workspace are relative to its folder."""
    if not path.exists():
        return {}
    import yaml

    text = user_files.text_of(path)
    try:
        data = yaml.safe_load(text)
        learn_secrets(data, ours=path == user_file())  # before an error can repeat one
    except Exception as error:  # YAML raises its own family, and others for what goes too deep
        mark = getattr(error, "problem_mark", None)
        line = f":{mark.line + 1}" if mark else ""
        problem = getattr(error, "problem", None) or explained(error)
        raise ConfigurationError(f"{path}{line}: not YAML: {problem}") from None
    if data is None:
        return {}
    if not isinstance(data, dict):
        raise ConfigurationError(f"{path}: a mapping of settings is needed")
    if path.parent == root.parent and isinstance(data.get("skills"), list):
        data["skills"] = [str(path.parent / Path(str(name)).expanduser()) for name in data["skills"]]
    if isinstance(data.get("ca_bundle"), str):
        data["ca_bundle"] = str(path.parent / Path(data["ca_bundle"]).expanduser())
    return data


def _environment() -> Mapping[str, Any]:
    """`FRACTAL_MODEL=…` and so on; values are YAML, so that numbers and lists work."""
    values: dict[str, Any] = {}
    for name in Config.model_fields:
        text = os.environ.get(f"FRACTAL_{name.upper()}")
        if text is not None:
            import yaml

            try:
                # a name with a colon, or an address, is no YAML
                plain = name in ("model", "api_base")
                values[name] = unquoted(text) if plain else yaml.safe_load(text)
                learn_secrets(values)
            except Exception:  # YAML raises its own family, and others for what goes too deep
                raise ConfigurationError(f"FRACTAL_{name.upper()}: {text[:80]!r} cannot be read") from None
    return values
