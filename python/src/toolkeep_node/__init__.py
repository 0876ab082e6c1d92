"""Tools in Python on a machine of their own: register them, serve them, call them."""

from .calls import is_cancelled, report_progress
from .client import call_tool
from .server import Node, serve
from .tools import ClusterLocalTools, ToolSet, register_tool, registry

__all__ = [
    "ClusterLocalTools",
    "Node",
    "ToolSet",
    "call_tool",
    "is_cancelled",
    "register_tool",
    "registry",
    "report_progress",
    "serve",
]
