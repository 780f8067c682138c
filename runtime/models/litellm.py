"""Any model that litellm knows, by name: `anthropic/…`, `ollama/…`, `bedrock/…`.

litellm takes seconds to import; it is imported at the first ask, or by `warm` in a thread. Only the call
itself uses the network.
"""

from __future__ import annotations

import asyncio
import json
import os
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Any

from kernel.asking.responder import Ask, Reply, Usage
from kernel.errors import ConfigurationError, ProviderError
from runtime.models.prices import LOCAL_PROVIDERS, usage
from runtime.models.provider import SAMPLING, SCHEMA_TOKENS, Provider, encodable, refuses_form

OLLAMA_CONTEXT = 8192  # Ollama silently truncates longer prompts, so the size is set and checked


class LiteLLM(Provider):
    """One model of a provider or a server, called through litellm."""

    @staticmethod
    def warm() -> None:
        """Import litellm; call it in a thread while something else is prepared."""
        _litellm()

    async def load(self) -> None:
        """Import litellm in a thread."""
        await asyncio.to_thread(_litellm)

    async def send(self, ask: Ask, seconds: float) -> Reply:
        """Make one call."""
        litellm = _litellm()
        return self._reply(ask, litellm, await litellm.acompletion(**self._request(ask, seconds, litellm)))

    def gave_in(self, error: Exception) -> bool:
        """Leave out the form of the reply if the provider refuses it."""
        refused = self._forms and refuses_form(error)
        self._forms = self._forms and not refused
        return refused

    def _request(self, ask: Ask, seconds: float, litellm: ModuleType) -> dict[str, Any]:
        request: dict[str, Any] = {
            "model": "ollama_chat" + self.model.removeprefix("ollama")
            if self.provider == "ollama"
            else self.model,
            "messages": [
                {"role": "system", "content": encodable(ask.system)},
                {"role": "user", "content": encodable(ask.user)},
            ],
            "max_tokens": self.longest(ask),
            "timeout": seconds,
            "max_retries": 0,
            "drop_params": True,
        }
        if self.provider.startswith("ollama"):
            request["num_ctx"] = OLLAMA_CONTEXT
        if self.api_base:
            request["api_base"] = self.api_base
            if self.provider == "openai" and not os.environ.get("OPENAI_API_KEY"):
                request["api_key"] = "none"  # the client requires a key even if the server does not
        if self.key_env:
            request["api_key"] = self.key(self.key_env)
        if ask.form.kind != "json":  # the likely reply first, then others
            request["temperature"] = SAMPLING if ask.sample else 0.0
        if form := self._form(ask, litellm):
            request["response_format"] = form
        return request | self.options

    def _form(self, ask: Ask, litellm: ModuleType) -> dict[str, Any] | None:
        """The response_format: the schema, any JSON object, or None for the prompt alone."""
        if not self._forms or ask.form.kind != "json":
            return None
        small = self.count(json.dumps(ask.schema)) <= SCHEMA_TOKENS
        if small and (
            self.provider.startswith("ollama") or litellm.supports_response_schema(model=self.model)
        ):
            schema = {"name": "reply", "schema": dict(ask.schema), "strict": False}
            return {"type": "json_schema", "json_schema": schema}
        supported = litellm.get_supported_openai_params(model=self.model) or []
        # for Claude, litellm turns it into a tool call without properties, which leads to empty objects
        return (
            {"type": "json_object"} if "response_format" in supported and "claude" not in self.model else None
        )

    def _reply(self, ask: Ask, litellm: ModuleType, response: Any) -> Reply:
        choice = response.choices[0]
        text = choice.message.content or ""
        used = getattr(response, "usage", None)
        prompt = getattr(used, "prompt_tokens", 0) or self.count(ask.system) + self.count(ask.user)
        completion = getattr(used, "completion_tokens", 0) or self.count(text)
        cost = self._used(litellm, response, prompt, completion)
        if choice.finish_reason == "content_filter":
            raise ProviderError(
                f"{self.name}: the provider's filter withheld the reply; rephrase the task", cost
            )
        context = self.options.get("num_ctx", OLLAMA_CONTEXT)
        if self.provider.startswith("ollama") and prompt >= context - 1:
            raise ProviderError(
                f"{self.name}: the prompt did not fit into the context of {context} tokens and was "
                "truncated; set options: {num_ctx: …} or take a smaller --profile",
                cost,
            )
        return Reply(text, self.name, cost, choice.finish_reason == "length")

    def _used(self, litellm: ModuleType, response: Any, prompt: int, completion: int) -> Usage:
        if self.given_price or self.provider in LOCAL_PROVIDERS:
            return usage(prompt, completion, self.price)
        try:  # litellm accounts for cached tokens
            cost = litellm.completion_cost(completion_response=response, model=self.model)
        except Exception:  # any failure falls back to the table
            cost = 0.0
        return Usage(prompt, completion, cost) if cost else usage(prompt, completion, self.price)


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
    return litellm
