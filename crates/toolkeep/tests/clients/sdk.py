"""The `mcp` package against a server that has the fixture's tools.

    sdk.py URL MODE      auto, legacy or a revision; the bearer key in TOOLKEEP_KEY, where there is one

Says what it saw as one JSON object.
"""

import asyncio
import json
import os
import sys

import httpx2
import mcp
import mcp.types as types
from mcp.client.streamable_http import streamable_http_client


async def elicited(_context, _params):
    return types.ElicitResult(action="accept", content={"username": "ada", "email": "ada@example.com"})


async def sampled(_context, _params):
    content = types.TextContent(type="text", text="an answer of the model")
    return types.CreateMessageResult(role="assistant", content=content, model="none")


def text(result):
    return result.content[0].text


async def count(client):
    return (await client.call_tool("test_cancelled_calls")).structured_content["cancelled"]


async def every(pages, key):
    found, cursor = [], None
    while True:
        page = await pages(cursor=cursor)
        found += getattr(page, key)
        cursor = page.next_cursor
        if cursor is None:
            return found


async def use(client):
    seen = {"protocol": client.protocol_version}
    seen["tools"] = [tool.name for tool in await every(client.list_tools, "tools")]
    seen["text"] = text(await client.call_tool("test_simple_text"))
    steps = []

    async def told(progress, total, _message):
        steps.append([progress, total])

    await client.call_tool("test_tool_with_progress", progress_callback=told)
    seen["progress"] = steps
    seen["error"] = (await client.call_tool("test_error_handling")).is_error
    seen["large"] = len(text(await client.call_tool("test_large_result", {"bytes": 1_000_000})))
    seen["elicited"] = text(await client.call_tool("test_elicitation", {"message": "Who?"}))
    seen["sampled"] = text(await client.call_tool("test_sampling", {"prompt": "What?"}))
    seen["prompts"] = [prompt.name for prompt in await every(client.list_prompts, "prompts")]
    arguments = {"arg1": "one", "arg2": "two"}
    prompt = await client.get_prompt("test_prompt_with_arguments", arguments)
    seen["prompt"] = prompt.messages[0].content.text
    seen["resources"] = [str(it.uri) for it in await every(client.list_resources, "resources")]
    seen["resource"] = (await client.read_resource("test://static-text")).contents[0].text
    seen["template"] = (await client.read_resource("test://template/7/data")).contents[0].text
    try:
        await client.read_resource("test://nowhere")
        seen["nowhere"] = "answered"
    except mcp.MCPError as error:
        seen["nowhere"] = error.error.code
    try:
        await client.call_tool("no_such_tool")
        seen["unknown"] = "answered"
    except mcp.MCPError as error:
        seen["unknown"] = error.error.code
    before, started = await count(client), asyncio.Event()

    async def begun(*_):
        started.set()

    call = asyncio.create_task(
        client.call_tool("test_wait", {"seconds": 50}, progress_callback=begun)
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


async def main(url, mode):
    key = os.environ.get("TOOLKEEP_KEY")
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    async with httpx2.AsyncClient(headers=headers, timeout=60) as http:
        transport = streamable_http_client(url, http_client=http)
        callbacks = {"elicitation_callback": elicited, "sampling_callback": sampled}
        async with mcp.Client(transport, mode=mode, **callbacks) as client:
            await use(client)


asyncio.run(main(*sys.argv[1:]))
