"""mini-swe-agent in its text mode, with its own shipped configuration."""

# pyright: reportMissingImports=false
# pyright: reportUnknownVariableType=false
import json
import os
import sys

os.environ.update(
    {"MSWEA_SILENT_STARTUP": "1", "LITELLM_LOCAL_MODEL_COST_MAP": "True", "OPENAI_API_KEY": "none"}
)

import yaml
from minisweagent.agents.default import DefaultAgent
from minisweagent.config import builtin_config_dir
from minisweagent.environments.local import LocalEnvironment
from minisweagent.models.litellm_textbased_model import LitellmTextbasedModel

task, url, model, seconds = sys.argv[1:]
config = yaml.safe_load((builtin_config_dir / "mini_textbased.yaml").read_text())
used = {"calls": 0, "prompt_tokens": 0, "completion_tokens": 0}


class Counting(LitellmTextbasedModel):
    """Adds up the tokens of all calls."""

    def _query(self, messages, **kwargs):
        response = super()._query(messages, **kwargs)
        used["calls"] += 1
        used["prompt_tokens"] += response.usage.prompt_tokens
        used["completion_tokens"] += response.usage.completion_tokens
        return response


settings = config["model"] | {"model_name": f"openai/{model}", "cost_tracking": "ignore_errors"}
settings["model_kwargs"] = {"drop_params": True, "api_base": url, "temperature": 0.0, "max_tokens": 1500}
agent_settings = {key: config["agent"][key] for key in ("system_template", "instance_template")}
agent = DefaultAgent(
    Counting(**settings),
    LocalEnvironment(**config["environment"]),
    **agent_settings,
    cost_limit=0,
    step_limit=25,
    wall_time_limit_seconds=int(seconds) - 15,
)
try:
    ended = agent.run(task)
except Exception as error:
    ended = {"exit_status": type(error).__name__, "submission": ""}
said = [each["content"] for each in agent.messages if each["role"] == "assistant"]
answer = ended.get("submission") or (said[-1] if said else "")
print(json.dumps({"answer": answer, "claims": ended.get("exit_status") == "Submitted", **used}))
