"""An MCP server that dies in its first call of all: `dying_server.py FILE`, which says that it has."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

died = Path(sys.argv[1])
none = {"type": "object", "properties": {}}
hints = {"look": {"readOnlyHint": True}, "again": {"idempotentHint": True}, "change": {}}
for line in sys.stdin:
    request = json.loads(line)
    if "id" not in request:
        continue
    answer = {"error": {"code": -32601, "message": "Method not found"}}
    if request["method"] == "initialize":
        info = {"name": "dying", "version": "1"}
        result = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": info}
        answer = {"result": result}
    elif request["method"] == "tools/list":
        tools = [{"name": each, "inputSchema": none, "annotations": hints[each]} for each in hints]
        answer = {"result": {"tools": tools}}
    elif request["method"] == "tools/call":
        if not died.exists():
            died.touch()
            os._exit(3)
        answer = {"result": {"content": [{"type": "text", "text": "fine"}]}}
    print(json.dumps({"jsonrpc": "2.0", "id": request["id"], **answer}), flush=True)
