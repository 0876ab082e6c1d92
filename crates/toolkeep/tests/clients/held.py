"""The `mcp` package calls a tool that a person has to approve.

    held.py URL MODE CAN N      MODE is legacy or a revision; CAN is url where it opens pages, else plain

Says what it saw as one JSON object.
"""

import asyncio
import json
import sys

import httpx2
import mcp
import mcp.types as types
from mcp.client.streamable_http import streamable_http_client


async def main(url, mode, can, n):
    opened = []

    async def elicited(_context, params):
        opened.append(params.url if params.mode == "url" else "form")
        return types.ElicitResult(action="accept", content={"approve": True} if params.mode != "url" else None)

    async with httpx2.AsyncClient(timeout=90) as http:
        transport = streamable_http_client(url, http_client=http)
        callbacks = {"elicitation_callback": elicited} if can == "url" else {}
        async with mcp.Client(transport, mode=mode, **callbacks) as client:
            result = await client.call_tool("wipe", {"n": int(n)})
            seen = {"text": result.content[0].text, "error": bool(result.is_error), "opened": opened}
            print(json.dumps(seen), flush=True)


asyncio.run(main(*sys.argv[1:]))
