"""`fastmcp` against a server that has the fixture's tools.

    fast.py URL      the bearer key in TOOLKEEP_KEY, where there is one

Says what it saw as one JSON object.
"""

import asyncio
import json
import os
import sys

from fastmcp import Client
from fastmcp.client.transports import StreamableHttpTransport


async def elicited(_message, response_type, _params, _context):
    return response_type(username="ada", email="ada@example.com")


async def sampled(_messages, _params, _context):
    return "an answer of the model"


def text(result):
    return result.content[0].text


async def count(client):
    return (await client.call_tool("test_cancelled_calls")).structured_content["cancelled"]


async def use(client):
    seen = {"tools": [tool.name for tool in await client.list_tools()]}
    seen["text"] = text(await client.call_tool("test_simple_text"))
    steps = []

    async def told(progress, total, _message):
        steps.append([progress, total])

    await client.call_tool("test_tool_with_progress", progress_handler=told)
    seen["progress"] = steps
    failed = await client.call_tool("test_error_handling", raise_on_error=False)
    seen["error"] = failed.is_error
    seen["large"] = len(text(await client.call_tool("test_large_result", {"bytes": 1_000_000})))
    seen["elicited"] = text(await client.call_tool("test_elicitation", {"message": "Who?"}))
    seen["sampled"] = text(await client.call_tool("test_sampling", {"prompt": "What?"}))
    before, started = await count(client), asyncio.Event()

    async def begun(*_):
        started.set()

    call = asyncio.create_task(
        client.call_tool("test_wait", {"seconds": 50}, progress_handler=begun)
    )
    await started.wait()
    call.cancel()
    await asyncio.gather(call, return_exceptions=True)
    seen["cancelled"] = 0
    for _ in range(200):
        seen["cancelled"] = await count(client) - before
        if seen["cancelled"]:
            break
        await asyncio.sleep(0.05)
    print(json.dumps(seen), flush=True)


async def main(url):
    key = os.environ.get("TOOLKEEP_KEY")
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    transport = StreamableHttpTransport(url, headers=headers)
    async with Client(transport, elicitation_handler=elicited, sampling_handler=sampled) as client:
        await use(client)


asyncio.run(main(*sys.argv[1:]))
