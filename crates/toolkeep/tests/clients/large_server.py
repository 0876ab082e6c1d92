"""An MCP server whose tool answers with many letters, as text and as structured content of its output schema."""

from fastmcp import FastMCP

server = FastMCP("large")


@server.tool
def letters(count: int) -> str:
    """Answers with that many letters."""
    return "x" * count


server.run()
