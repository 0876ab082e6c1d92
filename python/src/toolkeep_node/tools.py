"""The tools of this process: what each is called, what it takes, and the function that runs it."""

from __future__ import annotations

import inspect
import json
import re
import threading
from dataclasses import dataclass, field
from typing import Any, Callable, Dict, List, Optional

from . import typed

# What Toolkeep takes as a name.
NAME = re.compile(r"[A-Za-z0-9_.-]{1,128}\Z")


@dataclass
class ClusterLocalTools:
    """A tool of the cluster tools. `func` takes the input's bytes and returns the output's."""

    name: str
    func: Callable[[bytes], bytes]
    node_id: str
    input_spec: Dict[str, Any] = field(default_factory=dict)
    metadata: Dict[str, Any] = field(default_factory=dict)
    description: str = ""

    def call(self, input_bytes: bytes) -> bytes:
        """Runs it. Raises TypeError where its function returns no bytes."""
        output = self.func(input_bytes)
        if not isinstance(output, bytes):
            kind = type(output)
            raise TypeError(f"Tool '{self.name}' must return bytes, got {kind}")
        return output

    def described(self, node_id: str) -> Dict[str, Any]:
        """As the registry keeps it."""
        return {
            "name": self.name,
            "node_id": self.node_id or node_id,
            "input_spec": self.input_spec,
            "metadata": self.metadata,
            "description": self.description,
        }

    def told_metadata(self, node_id: str) -> Dict[str, str]:
        """Beside an answer: every value as text, for that is all that gRPC's map carries."""
        metadata = {str(name): _text(value) for name, value in self.metadata.items()}
        if node_id:
            metadata.setdefault("node_id", node_id)
        return metadata


class ToolSet:
    """Tools by name. A name is given once."""

    def __init__(self) -> None:
        self._tools: Dict[str, ClusterLocalTools] = {}
        self._lock = threading.Lock()

    def add(self, tool: ClusterLocalTools) -> None:
        """Raises ValueError where the name is taken or cannot be one."""
        if not isinstance(tool.name, str) or not NAME.match(tool.name):
            raise ValueError(
                f"Tool name {tool.name!r} cannot be one; use 1 to 128 letters, digits, `_`, `.` and `-`."
            )
        with self._lock:
            if tool.name in self._tools:
                raise ValueError(f"Tool '{tool.name}' is already registered.")
            self._tools[tool.name] = tool

    def get(self, name: str) -> ClusterLocalTools:
        """Raises LookupError where there is none."""
        with self._lock:
            tool = self._tools.get(name)
        if tool is None:
            raise LookupError(f"Tool '{name}' not found.")
        return tool

    def all(self) -> List[ClusterLocalTools]:
        """In the order of their registration."""
        with self._lock:
            return list(self._tools.values())


# What `register_tool` fills and `serve` serves where nothing else is said.
registry = ToolSet()


def register_tool(
    name: str,
    input_spec: Optional[Dict[str, Any]] = None,
    metadata: Optional[Dict[str, Any]] = None,
    description: str = "",
    *,
    tools: Optional[ToolSet] = None,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Makes a tool of a function, which stays as it is.

    A function of one parameter that is `bytes`, or that has no annotation, is given the input as it came.
    Any other is given the fields of the input, a JSON object, as its arguments; what it returns is written
    as JSON, unless it is bytes.
    """

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        spec, run = input_spec, function
        if not _takes_bytes(function):
            signature = typed.Signature(name, function)
            run = signature.run
            spec = signature.schema() if input_spec is None else input_spec
        kept = dict(metadata or {})
        json.dumps([spec, kept])
        tool = ClusterLocalTools(
            name=name,
            func=run,
            node_id=str(kept.get("node_id", "")),
            input_spec=dict(spec or {}),
            metadata=kept,
            description=description or inspect.getdoc(function) or "",
        )
        (registry if tools is None else tools).add(tool)
        return function

    return register


def _takes_bytes(function: Callable[..., Any]) -> bool:
    parameters = list(inspect.signature(function).parameters.values())
    plain = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    if len(parameters) != 1 or parameters[0].kind not in plain:
        return False
    annotation = parameters[0].annotation
    return annotation in (bytes, "bytes", inspect.Parameter.empty)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
