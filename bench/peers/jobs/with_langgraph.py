"""The job with langgraph and a saver in SQLite. Arguments: the address of the model and the task."""

import sqlite3
import sys
from pathlib import Path

from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.prebuilt import create_react_agent


@tool
def read(path: str) -> str:
    """Read a file."""
    return Path(path).read_text("utf-8")


model = ChatOpenAI(model="bench", base_url=sys.argv[1], api_key="none")
saver = SqliteSaver(sqlite3.connect("state.sqlite", check_same_thread=False))
graph = create_react_agent(model, [read], checkpointer=saver)
config = {"configurable": {"thread_id": "1"}, "recursion_limit": 100}
print(graph.invoke({"messages": [("user", sys.argv[2])]}, config)["messages"][-1].content)
