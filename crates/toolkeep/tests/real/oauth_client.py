"""The Python SDK without a token: it is told where to get one, gets it, and lists and calls.

Arguments: the address of /mcp, and a tool to call. Prints the tools' names and the call's answer.
"""

import asyncio
import json
import sys

import httpx2
import mcp
from mcp.client.auth.extensions.client_credentials import ClientCredentialsOAuthProvider
from mcp.client.streamable_http import streamable_http_client


class Kept:
    """Tokens in memory."""

    def __init__(self):
        self.tokens = None
        self.client = None

    async def get_tokens(self):
        return self.tokens

    async def set_tokens(self, tokens):
        self.tokens = tokens

    async def get_client_info(self):
        return self.client

    async def set_client_info(self, client_info):
        self.client = client_info


async def main(url, tool):
    auth = ClientCredentialsOAuthProvider(url, Kept(), "bot", "secret")
    async with httpx2.AsyncClient(auth=auth, timeout=60) as http:
        transport = streamable_http_client(url, http_client=http)
        async with mcp.Client(transport, mode="legacy") as client:
            listed = await client.list_tools()
            answer = await client.call_tool(tool, {})
            names = [one.name for one in listed.tools]
            print(json.dumps({"tools": names, "error": bool(answer.is_error)}))


asyncio.run(main(*sys.argv[1:]))
