"""The `mcp` package in search mode: it searches, describes and calls a tool that a person approves.

    search_mode.py URL MODE N      MODE is legacy or a revision; the bearer key in TOOLKEEP_KEY

Says what it saw as one JSON object.
"""

import asyncio
import json
import os
import sys

import httpx2
import mcp
from mcp.client.streamable_http import streamable_http_client


async def main(url, mode, n):
    headers = {"Authorization": f"Bearer {os.environ['TOOLKEEP_KEY']}"}
    async with httpx2.AsyncClient(headers=headers, timeout=90) as http:
        transport = streamable_http_client(url, http_client=http)
        async with mcp.Client(transport, mode=mode) as client:
            seen = {"protocol": client.protocol_version}
            seen["tools"] = [tool.name for tool in (await client.list_tools()).tools]
            found = await client.call_tool("search_tools", {"queries": ["wipe a cache"]})
            name = found.structured_content["results"][0]["name"]
            described = await client.call_tool("describe_tools", {"names": [name]})
            seen["described"] = described.structured_content["tools"]
            wrong = {"name": name, "arguments": {"n": "many"}}
            seen["wrong"] = (await client.call_tool("call_tool", wrong)).content[0].text
            call = {"name": name, "arguments": {"n": int(n)}}
            result = await client.call_tool("call_tool", call)
            seen |= {"text": result.content[0].text, "error": bool(result.is_error)}
            print(json.dumps(seen), flush=True)


asyncio.run(main(*sys.argv[1:]))
