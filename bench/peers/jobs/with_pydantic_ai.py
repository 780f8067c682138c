"""The job with pydantic-ai. Arguments: the address of the model and the task."""

import sys
from pathlib import Path

from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

model = OpenAIChatModel("bench", provider=OpenAIProvider(base_url=sys.argv[1], api_key="none"))
agent = Agent(model)


@agent.tool_plain
def read(path: str) -> str:
    """Read a file."""
    return Path(path).read_text("utf-8")


print(agent.run_sync(sys.argv[2]).output)
