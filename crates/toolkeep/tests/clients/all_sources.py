"""The `mcp` package at the endpoint of all sources: prompts, resources, templates and completion.

    all_sources.py URL MODE      MODE is legacy or a revision; the bearer key in TOOLKEEP_KEY

Says what it saw as one JSON object.
"""

import asyncio
import json
import os
import sys

import httpx2
import mcp
from mcp import types
from mcp.client.streamable_http import streamable_http_client


async def main(url, mode):
    headers = {"Authorization": f"Bearer {os.environ['TOOLKEEP_KEY']}"}
    async with httpx2.AsyncClient(headers=headers, timeout=60) as http:
        transport = streamable_http_client(url, http_client=http)
        async with mcp.Client(transport, mode=mode) as client:
            seen = {"protocol": client.protocol_version}
            prompts = (await client.list_prompts()).prompts
            seen["prompts"] = [prompt.name for prompt in prompts]
            resources = (await client.list_resources()).resources
            seen["resources"] = [str(resource.uri) for resource in resources]
            templates = (await client.list_resource_templates()).resource_templates
            seen["templates"] = [template.uri_template for template in templates]
            got = await client.get_prompt("two.test_simple_prompt")
            seen["prompt"] = got.messages[0].content.text
            seen["contents"] = []
            for uri in ["two+test://static-text", "two+test://template/7/data"]:
                content = (await client.read_resource(uri)).contents[0]
                seen["contents"].append([str(content.uri), content.text])
            reference = types.PromptReference(
                type="ref/prompt", name="two.test_prompt_with_arguments")
            argument = {"name": "arg1", "value": "p"}
            done = await client.complete(reference, argument)
            seen["completion"] = done.completion.values
            print(json.dumps(seen), flush=True)


asyncio.run(main(*sys.argv[1:]))
