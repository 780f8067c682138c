"""The servers that speak OpenAI's protocol, by the first part of a model's name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Endpoint:
    """Where a provider answers."""

    url: str
    key: str = ""  # the environment variable with the key; "": a server on the user's own machine
    default: str = ""  # the model that is used where only the key is set
    limit: str = "max_tokens"  # the request's member for the longest reply

    @property
    def local(self) -> bool:
        """Whether the server runs on the user's own machine."""
        return not self.key


ENDPOINTS: Mapping[str, Endpoint] = {
    "openai": Endpoint(
        "https://api.openai.com/v1", "OPENAI_API_KEY", "gpt-5-mini", limit="max_completion_tokens"
    ),
    "gemini": Endpoint(
        "https://generativelanguage.googleapis.com/v1beta/openai", "GEMINI_API_KEY", "gemini-2.5-flash"
    ),
    "mistral": Endpoint("https://api.mistral.ai/v1", "MISTRAL_API_KEY", "mistral-medium-latest"),
    "openrouter": Endpoint("https://openrouter.ai/api/v1", "OPENROUTER_API_KEY", "openai/gpt-5-mini"),
    "deepseek": Endpoint("https://api.deepseek.com/v1", "DEEPSEEK_API_KEY", "deepseek-chat"),
    "groq": Endpoint("https://api.groq.com/openai/v1", "GROQ_API_KEY", "openai/gpt-oss-120b"),
    "together_ai": Endpoint("https://api.together.xyz/v1", "TOGETHER_API_KEY", "openai/gpt-oss-120b"),
    "lm_studio": Endpoint("http://127.0.0.1:1234/v1"),
    "hosted_vllm": Endpoint("http://127.0.0.1:8000/v1"),
    "llamacpp": Endpoint("http://127.0.0.1:8080/v1"),
}
"""In the order in which their keys are looked for."""
ALIASES: Mapping[str, str] = {"lmstudio": "lm_studio", "vllm": "hosted_vllm", "together": "together_ai"}
"""Short names of providers. The long ones are those of litellm's table of prices."""
RESPONSES = "responses/"
"""What stands before a model's name where litellm asks by OpenAI's Responses API: `openai/responses/m`."""
OWN = Endpoint("")
"""A server whose address is in the settings."""
