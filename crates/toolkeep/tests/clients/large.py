"""The `mcp` package calls a tool with an output schema whose answers are large.

    large.py URL MODE TOOL COUNT...      MODE is legacy or a revision

Says what came of each as one JSON object: the package itself checks results against the output schema, and raises.
"""

import asyncio
import json
import sys

import httpx2
import mcp
from mcp.client.streamable_http import streamable_http_client


async def main(url, mode, tool, *counts):
    async with httpx2.AsyncClient(timeout=90) as http:
        async with mcp.Client(streamable_http_client(url, http_client=http), mode=mode) as client:
            tools = (await client.list_tools()).tools
            schema = next(it.output_schema for it in tools if it.name == tool)
            seen = {"schema": schema is not None, "calls": []}
            for count in counts:
                try:
                    result = await client.call_tool(tool, {"count": int(count)})
                    structured = result.structured_content
                    length = None if structured is None else len(structured["result"])
                    texts = [it.text[:4000] for it in result.content]
                    seen["calls"].append({"error": bool(result.is_error), "length": length, "texts": texts})
                except RuntimeError as error:
                    seen["calls"].append({"raised": str(error)[:300]})
            print(json.dumps(seen), flush=True)


asyncio.run(main(*sys.argv[1:]))
