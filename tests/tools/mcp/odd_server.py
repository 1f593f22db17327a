"""A server that answers one request wrongly: `python odd_server.py METHOD RESULT`, where RESULT is JSON or `nothing`.

Written without the official package, which would not let it.
"""

from __future__ import annotations

import json
import sys
from typing import Any

TOOL = {"name": "add", "inputSchema": {"type": "object"}}
SERVER = {"name": "odd", "version": "1"}
RESULTS: dict[str, Any] = {
    "tools/list": {"tools": [TOOL]},
    "tools/call": {"content": [{"type": "text", "text": "3"}]},
}


def main(odd_method: str, result: str) -> None:
    count = 0
    for line in sys.stdin:
        message = json.loads(line)
        method, id = message.get("method"), message.get("id")
        if id is None:
            continue
        answer: dict[str, Any] = {"jsonrpc": "2.0", "id": id}
        if method == "initialize":
            version = message["params"]["protocolVersion"]
            answer["result"] = {
                "protocolVersion": version,
                "capabilities": {"tools": {}},
                "serverInfo": SERVER,
            }
        elif method == odd_method and result == "nothing":
            continue
        elif method == odd_method and result == "pages":
            count += 1
            page = [{**TOOL, "name": f"tool_{count}"}]
            answer["result"] = {"tools": page, "nextCursor": str(count)}
        elif method == odd_method:
            answer["result"] = json.loads(result)
        elif method in RESULTS:
            answer["result"] = RESULTS[method]
        else:
            answer["error"] = {"code": -32601, "message": "Method not found"}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
