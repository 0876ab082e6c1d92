"""`fastmcp` as client of skills (SEP-2640): it lists them, gets each, and reads and verifies its files.

    skills.py URL      the bearer key in TOOLKEEP_KEY

Says what it saw as one JSON object.
"""

import asyncio
import hashlib
import json
import os
import sys

from fastmcp import Client
from fastmcp.client.transports import StreamableHttpTransport
from fastmcp.skills import SkillsClientExtension


async def main(url):
    headers = {"Authorization": f"Bearer {os.environ['TOOLKEEP_KEY']}"}
    transport = StreamableHttpTransport(url, headers=headers)
    async with Client(transport, extensions=[SkillsClientExtension()]) as client:
        seen = {"skills": [], "files": [], "errors": []}
        for skill in await client.list_skills():
            seen["skills"].append(skill.uri)
            assert (await client.get_skill(skill.uri)) == skill
            for file in skill.resources:
                try:
                    text = (await client.read_resource(str(file.uri)))[0].text
                except Exception as error:  # what the client says of a file that it may not have
                    seen["errors"].append([str(file.uri), str(error)])
                    continue
                digest = "sha256:" + hashlib.sha256(text.encode()).hexdigest()
                seen["files"].append([str(file.uri), digest == file.digest])
        print(json.dumps(seen), flush=True)


asyncio.run(main(*sys.argv[1:]))
