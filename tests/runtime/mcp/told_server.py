"""An MCP server that says what a file tells it to: `told_server.py FILE`, on standard input and output.

The file is JSON: `pages`, the results of tools/list by cursor ("" is the first, "*" any other), and
`answers`, what a call of each tool answers: a result, or {"message": …} for the whole message.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

told = json.loads(Path(sys.argv[1]).read_text())


def say(message: dict) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


for line in sys.stdin:
    request = json.loads(line)
    if "id" not in request:
        continue
    method, params = request["method"], request.get("params") or {}
    answer: dict = {"error": {"code": -32601, "message": "Method not found"}}
    if method == "initialize":
        info = {"name": "told", "version": "1"}
        capabilities = {"tools": {}}
        answer = {
            "result": {"protocolVersion": "2025-06-18", "capabilities": capabilities, "serverInfo": info}
        }
    elif method == "tools/list":
        pages, cursor = told["pages"], str(params.get("cursor", ""))
        answer = {"result": pages.get(cursor, pages.get("*"))}
    elif method == "tools/call":
        given = told["answers"][params["name"]]
        answer = given["message"] if isinstance(given, dict) and "message" in given else {"result": given}
    say({"jsonrpc": "2.0", "id": request["id"], **answer})
