"""Functions with annotations as tools: their JSON Schema, and their call with a JSON object."""

from __future__ import annotations

import dataclasses
import enum
import inspect
import json
import types
import typing
from typing import Any, Callable, Dict

PLAIN = {str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null"}
TAKES = {"string": str, "integer": int, "boolean": bool, "array": list, "object": dict}


class Signature:
    """What a function takes."""

    def __init__(self, name: str, function: Callable[..., Any]) -> None:
        self._name, self._function = name, function
        self._parameters = inspect.signature(function).parameters
        hints = typing.get_type_hints(function)
        self._schemas: Dict[str, Dict[str, Any]] = {}
        for parameter in self._parameters.values():
            if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
                raise TypeError(f"Tool '{name}': parameter `{parameter}` cannot be given by name.")
            self._schemas[parameter.name] = schema(hints.get(parameter.name, Any))

    def schema(self) -> Dict[str, Any]:
        """JSON Schema of the input."""
        wanted = [p.name for p in self._parameters.values() if p.default is p.empty]
        return {
            "type": "object",
            "properties": self._schemas,
            "required": wanted,
            "additionalProperties": False,
        }

    def run(self, input_bytes: bytes) -> bytes:
        """Calls the function. Raises ValueError where the input does not fit."""
        try:
            given = json.loads(input_bytes or b"{}")
        except ValueError as error:
            raise ValueError(f"the input is no JSON: {error}") from None
        if not isinstance(given, dict):
            raise ValueError("the input is no JSON object")
        for name in given:
            if name not in self._parameters:
                raise ValueError(f"unknown parameter `{name}`")
        for parameter in self._parameters.values():
            if parameter.name not in given and parameter.default is parameter.empty:
                raise ValueError(f"the parameter `{parameter.name}` is missing")
        for name, value in given.items():
            wanted = self._schemas[name].get("type")
            takes = TAKES.get(wanted) if isinstance(wanted, str) else None
            if takes and (not isinstance(value, takes) or (takes is int and isinstance(value, bool))):
                raise ValueError(f"the parameter `{name}` is no {wanted}")
        output = self._function(**given)
        return output if isinstance(output, bytes) else json.dumps(output, default=_plain).encode()


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.asdict(value)
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, (set, frozenset, tuple)):
        return list(value)
    return str(value)


def schema(hint: Any) -> Dict[str, Any]:
    """JSON Schema of one annotation; anything for what has none."""
    if hint in PLAIN:
        return {"type": PLAIN[hint]}
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Literal:
        return {"enum": list(arguments)}
    if origin in (typing.Union, types.UnionType):
        return {"anyOf": [schema(argument) for argument in arguments]}
    if hint in (list, tuple, set) or origin in (list, tuple, set, frozenset):
        items = [argument for argument in arguments if argument is not Ellipsis]
        return {"type": "array", "items": schema(items[0])} if len(items) == 1 else {"type": "array"}
    if hint is dict or origin is dict:
        values = {"additionalProperties": schema(arguments[1])} if len(arguments) == 2 else {}
        return {"type": "object", **values}
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return {"enum": [member.value for member in hint]}
    return {}
