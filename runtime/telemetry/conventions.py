"""Names of attributes and operations of spans.

Those of `gen_ai.*` follow github.com/open-telemetry/semantic-conventions-genai, docs/gen-ai/, at commit
002c8a6ea1c8a42b14a4527db83b3cabcded610a. They are in development there: change them here and nowhere else.
"""

COMMIT = "002c8a6ea1c8a42b14a4527db83b3cabcded610a"
"""Of the conventions; spans name it in their scope."""

INVOKE_WORKFLOW = "invoke_workflow"
INVOKE_AGENT = "invoke_agent"
PLAN = "plan"
CHAT = "chat"
EXECUTE_TOOL = "execute_tool"

OPERATION = "gen_ai.operation.name"
CONVERSATION = "gen_ai.conversation.id"
AGENT_ID = "gen_ai.agent.id"
AGENT_NAME = "gen_ai.agent.name"
PROVIDER = "gen_ai.provider.name"
REQUEST_MODEL = "gen_ai.request.model"
RESPONSE_MODEL = "gen_ai.response.model"
INPUT_TOKENS = "gen_ai.usage.input_tokens"
CACHED_TOKENS = "gen_ai.usage.cache_read.input_tokens"
OUTPUT_TOKENS = "gen_ai.usage.output_tokens"
TOOL_NAME = "gen_ai.tool.name"
TOOL_ARGUMENTS = "gen_ai.tool.call.arguments"
TOOL_RESULT = "gen_ai.tool.call.result"
INPUT_MESSAGES = "gen_ai.input.messages"
OUTPUT_MESSAGES = "gen_ai.output.messages"
ERROR_TYPE = "error.type"

PROVIDERS = {
    "azure": "azure.ai.openai",
    "bedrock": "aws.bedrock",
    "gemini": "gcp.gemini",
    "mistral": "mistral_ai",
    "vertex_ai": "gcp.vertex_ai",
    "xai": "x_ai",
}
"""Names of providers that differ from the beginnings of our models' names."""


def provider(model: str) -> str:
    """The provider of a model, by the beginning of its name: `openai/…`, `llama:…`."""
    name = model.partition("/")[0].partition(":")[0]
    return PROVIDERS.get(name, name)
