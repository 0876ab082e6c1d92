"""A server of `fastmcp` with the skills of a folder (SEP-2640), read anew with each request.

    skills_server.py FOLDER PORT
"""

import sys
from pathlib import Path

from fastmcp import FastMCP
from fastmcp.server.providers.skills import SkillsDirectoryProvider
from fastmcp.skills.extension import SkillsExtension

server = FastMCP("skills")
provider = SkillsDirectoryProvider(Path(sys.argv[1]), experimental_skills=True, reload=True)
server.add_provider(provider)
server.add_extension(SkillsExtension(providers=[provider]))
server.run(transport="http", host="127.0.0.1", port=int(sys.argv[2]), show_banner=False)
