"""mini-swe-agent with its own shipped configuration for tool calls, in an environment of its own.

`python mini.py TASK URL MODEL` does a task in the current folder, and prints one line of JSON: `answer`,
`status` and `claims`.
"""

# pyright: reportMissingImports=false
# pyright: reportUnknownVariableType=false
import json
import os
import sys
from typing import Any

os.environ.update(
    {
        "MSWEA_SILENT_STARTUP": "1",
        "MSWEA_COST_TRACKING": "ignore_errors",
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    }
)

import yaml
from minisweagent.agents.default import DefaultAgent
from minisweagent.config import builtin_config_dir
from minisweagent.environments.local import LocalEnvironment
from minisweagent.models.litellm_model import LitellmModel

TURNS = 80


def main(task: str, url: str, model: str) -> None:
    """Do the task, and print the outcome."""
    config = yaml.safe_load((builtin_config_dir / "mini.yaml").read_text())
    settings = dict(config["model"])
    settings["model_kwargs"] = {
        **settings.get("model_kwargs", {}),
        "api_base": url,
        "timeout": 1800,
    }
    told = {key: config["agent"][key] for key in ("system_template", "instance_template")}
    agent = DefaultAgent(
        LitellmModel(model_name=f"openai/{model}", **(settings | {"cost_tracking": "ignore_errors"})),
        LocalEnvironment(**config.get("environment", {})),
        **told,
        cost_limit=0,
        step_limit=TURNS,
    )
    ended: dict[str, Any]
    try:
        ended = agent.run(task)
    except Exception as error:
        ended = {"exit_status": type(error).__name__, "submission": str(error)[:500]}
    said = [each.get("content") for each in agent.messages if each["role"] == "assistant"]
    answer = ended.get("submission") or next((text for text in reversed(said) if text), "")
    status = ended.get("exit_status", "")
    print(json.dumps({"answer": answer, "status": status, "claims": status == "Submitted"}))


if __name__ == "__main__":
    main(*sys.argv[1:])
