"""The job with openai-agents and a session in SQLite. Arguments: the address of the model and the task."""

import sys
from pathlib import Path

from agents import Agent, Runner, SQLiteSession, function_tool, set_tracing_disabled
from agents.models.openai_chatcompletions import OpenAIChatCompletionsModel
from openai import AsyncOpenAI

set_tracing_disabled(True)


@function_tool
def read(path: str) -> str:
    """Read a file."""
    return Path(path).read_text("utf-8")


model = OpenAIChatCompletionsModel("bench", AsyncOpenAI(base_url=sys.argv[1], api_key="none"))
agent = Agent("bench", model=model, tools=[read])
session = SQLiteSession("1", "state.sqlite")
print(Runner.run_sync(agent, sys.argv[2], session=session, max_turns=30).final_output)
