"""Any model that litellm knows, by name: `anthropic/…`, `ollama/…`, `bedrock/…`.

litellm takes seconds to import; it is imported at the first ask, in a thread. Only the call itself uses
the network.
"""

from __future__ import annotations

import asyncio
import os
from dataclasses import replace
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Any

from kernel.asking.responder import Ask, Reply
from kernel.errors import ConfigurationError, FractalError, ProviderError
from runtime.http_transport import BUNDLE, cause, transport
from runtime.models.answers import whole_answer
from runtime.models.prices import LOCAL_PROVIDERS
from runtime.models.provider import ANY_OBJECT, KEYS, Provider
from runtime.models.window import Window
from runtime.received import ACCEPTED, held
from runtime.secrets.known import secret_of

OLLAMA_CONTEXT = 8192  # Ollama silently truncates longer prompts, so the size is set and checked


class LiteLLM(Provider):
    """One model of a provider or a server, called through litellm."""

    gateway = "litellm"

    def __init__(self, model: str, *, native: bool | None = None, **settings: Any) -> None:
        """Name a model. The other settings are those of `Provider`.

        native: whether its tool calls have the provider's own form; by default that is tried once.
        """
        ollama = model.startswith("ollama")  # litellm writes its tools into the prompt
        super().__init__(model, **{"tools": False if ollama and native is None else native, **settings})

    def find_window(self) -> Window:
        """The window by what is known; of Ollama what each request asks for."""
        if not self.provider.startswith("ollama"):
            return super().find_window()
        said = self.options.get("num_ctx") or self.context
        return Window(said, "the settings") if said else Window(OLLAMA_CONTEXT, "what Ollama is asked for")

    async def load(self) -> None:
        """Import litellm in a thread, and run the program that prints the key."""
        await asyncio.to_thread(_litellm)
        if self.key_command:
            await asyncio.to_thread(self.key, self.key_name)

    async def send(self, ask: Ask, seconds: float) -> Reply:
        """Make one call."""
        litellm = _litellm()
        BUNDLE.set(self.ca_bundle)
        try:
            response = await litellm.acompletion(**self._request(ask, seconds))
        except Exception as error:  # litellm makes one of its own of what is said on the way
            if said := cause(error, FractalError):
                raise said from None
            raise
        answer = whole_answer(response.model_dump())
        if answer.tokens.usd is None:
            paid = self._paid(litellm, response)
            answer = replace(answer, tokens=replace(answer.tokens, usd=paid)) if paid else answer
        prompt = answer.tokens.prompt
        if self.provider.startswith("ollama") and prompt >= self.window - 1:
            raise ProviderError(
                f"{self.name}: the prompt did not fit into the context of {self.window} tokens and was "
                "truncated; set options: {num_ctx: …} or take a smaller --profile",
                self.cost(ask, answer),
            )
        return self.reply_of(ask, answer)

    def _request(self, ask: Ask, seconds: float) -> dict[str, Any]:
        name = "ollama_chat" + self.model.removeprefix("ollama") if self.provider == "ollama" else self.model
        more = {"model": name, "timeout": seconds, "max_retries": 0, "drop_params": True}
        if self.provider.startswith("ollama"):
            more["num_ctx"] = self.context or OLLAMA_CONTEXT
        if self.api_base:
            more["api_base"] = self.api_base
            if self.provider == "openai" and not os.environ.get("OPENAI_API_KEY"):
                more["api_key"] = "none"  # the client requires a key even if the server does not
        if headers := {name: value for name, value in self.own_headers().items() if value}:
            more["extra_headers"] = headers
        if self.key_env or self.key_command:
            more["api_key"] = self.key(self.key_name)
        elif self.provider not in KEYS and (key := secret_of(self.key_name)):
            more["api_key"] = key
        return self.request(ask, **more)

    def form_of(self, ask: Ask) -> dict[str, Any] | None:
        """As every provider's, where litellm says that the model takes it."""
        litellm, form = _litellm(), super().form_of(ask)
        ollama = self.provider.startswith("ollama")
        if form != ANY_OBJECT and (ollama or litellm.supports_response_schema(model=self.model)):
            return form
        supported = litellm.get_supported_openai_params(model=self.model) or []
        # for Claude, litellm turns it into a tool call without properties, which leads to empty objects
        return ANY_OBJECT if "response_format" in supported and "claude" not in self.model else None

    def _paid(self, litellm: ModuleType, response: Any) -> float:
        """What litellm's table says that a response costs; it knows of cached tokens. 0: not known."""
        if self.given_price or self.provider in LOCAL_PROVIDERS:
            return 0.0
        try:
            return float(litellm.completion_cost(completion_response=response, model=self.model))
        except Exception:  # any failure falls back to the table
            return 0.0


@cache
def _litellm() -> ModuleType:
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # otherwise the import uses the network
    os.environ.setdefault("LITELLM_MODE", "PRODUCTION")  # otherwise it reads a .env file
    try:
        litellm: Any = import_module("litellm")
    except ImportError as error:
        raise ConfigurationError(
            f"the model needs litellm, which is not installed ({error}); pip install 'fractal-runtime[llm]'"
        ) from None
    litellm.telemetry = False
    litellm.disable_hf_tokenizer_download = True
    litellm.suppress_debug_info = True
    litellm.disable_aiohttp_transport = True  # its sessions outlive the event loop and warn
    _own_clients(import_module("litellm.llms.custom_httpx.http_handler").AsyncHTTPHandler)
    other: Any = import_module("litellm.llms.openai.common_utils").BaseOpenAILLM
    other._get_async_http_client = staticmethod(
        lambda *_, **__: import_module("runtime.models.connections").bare_client()
    )
    return litellm


def _own_clients(handler: Any) -> None:
    """Give the clients of this class our transport and bound their answers: litellm has no setting for it."""
    make: Any = handler.create_client

    def create_client(self: Any, *args: Any, **kwargs: Any) -> Any:
        self.transport = self.transport or transport(import_module("httpx"), BUNDLE.get)
        client = make(self, *args, **kwargs)
        client.headers.update(ACCEPTED)
        hooks = client.event_hooks
        client.event_hooks = {**hooks, "response": [held, *hooks["response"]]}
        return client

    handler.create_client = create_client
