# The proxy of the PyPI package `fastmcp` in front of the MCP server at argv[1], on the port argv[2].
import sys

from fastmcp.server import create_proxy

create_proxy(sys.argv[1]).run(
    transport="http",
    host="127.0.0.1",
    port=int(sys.argv[2]),
    stateless_http=True,
    json_response=True,
    show_banner=False,
    log_level="ERROR",
)
