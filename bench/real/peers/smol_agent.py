"""smolagents' CodeAgent with its shipped prompts; its Python may import anything and open files."""

# pyright: reportMissingImports=false
# pyright: reportUnknownVariableType=false
import json
import sys

from smolagents import CodeAgent, OpenAIServerModel

task, url, model, seconds = sys.argv[1:]
settings = {"api_base": url, "api_key": "none", "temperature": 0.0, "max_tokens": 1500}
agent = CodeAgent(
    tools=[],
    model=OpenAIServerModel(model, flatten_messages_as_text=True, **settings),
    additional_authorized_imports=["*"],
    executor_kwargs={"additional_functions": {"open": open}},
    max_steps=12,
    verbosity_level=0,
)
claims, answer = True, ""
try:
    result = agent.run(task, return_full_result=True)
    answer, claims = str(result.output), result.state == "success"
except Exception as error:
    claims, answer = False, f"{type(error).__name__}: {error}"
usage = agent.monitor.get_total_token_counts()
calls = sum(type(step).__name__ == "ActionStep" for step in agent.memory.steps)
used = {"calls": calls, "prompt_tokens": usage.input_tokens, "completion_tokens": usage.output_tokens}
print(json.dumps({"answer": answer, "claims": claims, **used}))
