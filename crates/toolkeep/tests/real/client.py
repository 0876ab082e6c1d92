"""The `mcp` package as a client: lists all tools of a server and makes the calls it is told to make.

    client.py http URL MODE      the bearer key in TOOLKEEP_KEY, where there is one
    client.py stdio PROGRAM …    a server of its own, asked directly

The calls come as one JSON array of `[name, arguments]` on standard input. One line of JSON goes out
for the session, one for each page of tools, and one for each call.
"""

import asyncio
import json
import os
import sys

import httpx2
import mcp
from mcp.client.stdio import StdioServerParameters
from mcp.client.streamable_http import streamable_http_client


def say(**fields):
    print(json.dumps(fields), flush=True)


def plain(model):
    return model.model_dump(mode="json", by_alias=True, exclude_unset=True)


async def use(client):
    say(protocol=client.protocol_version)
    cursor = None
    while True:
        page = await client.list_tools(cursor=cursor)
        say(tools=[plain(tool) for tool in page.tools])
        cursor = page.next_cursor
        if cursor is None:
            break
    for name, arguments in json.load(sys.stdin):
        steps = []

        async def told(progress, total, _message, steps=steps):
            steps.append([progress, total])

        try:
            answer = await client.call_tool(name, arguments, progress_callback=told)
            say(call=name, answer=plain(answer), progress=steps)
        except mcp.MCPError as error:
            say(call=name, error={"code": error.error.code, "message": error.error.message})


async def main(how, *rest):
    if how == "stdio":
        server = StdioServerParameters(command=rest[0], args=list(rest[1:]))
        async with mcp.Client(server, mode="legacy") as client:
            await use(client)
        return
    url, mode = rest
    key = os.environ.get("TOOLKEEP_KEY")
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    async with httpx2.AsyncClient(headers=headers, timeout=60) as http:
        async with mcp.Client(streamable_http_client(url, http_client=http), mode=mode) as client:
            await use(client)


asyncio.run(main(*sys.argv[1:]))
