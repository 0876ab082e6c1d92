"""What makes a tool, and what is refused."""

import json
from typing import Literal, Optional

import pytest

from toolkeep_node import ToolSet, register_tool


@pytest.fixture
def tools():
    return ToolSet()


def test_a_cluster_tool_is_registered_as_it_is_written(tools):
    @register_tool(
        name="reverse",
        input_spec={"text": "string"},
        description="Reverses the input string",
        metadata={"version": "1.0.0", "node_id": "node-abc123"},
        tools=tools,
    )
    def reverse_tool(input_bytes: bytes) -> bytes:
        return input_bytes.decode()[::-1].encode()

    assert reverse_tool(b"ab") == b"ba", "the function stays as it is"
    tool = tools.get("reverse")
    assert tool.call(b"abc") == b"cba"
    assert tool.described("other") == {
        "name": "reverse",
        "node_id": "node-abc123",
        "input_spec": {"text": "string"},
        "metadata": {"version": "1.0.0", "node_id": "node-abc123"},
        "description": "Reverses the input string",
    }


def test_a_name_is_registered_once_with_the_cluster_tools_text(tools):
    register_tool(name="x", tools=tools)(lambda given: given)
    with pytest.raises(ValueError, match=r"^Tool 'x' is already registered\.$"):
        register_tool(name="x", tools=tools)(lambda given: given)
    with pytest.raises(LookupError, match=r"Tool 'y' not found\."):
        tools.get("y")


def test_a_name_that_no_registry_takes_is_refused_here(tools):
    for name in ["", "a b", "x" * 129, "a\n", "ä"]:
        with pytest.raises(ValueError, match="cannot be one"):
            register_tool(name=name, tools=tools)(lambda given: given)


def test_a_result_without_bytes_is_reported_with_the_cluster_tools_text(tools):
    register_tool(name="x", tools=tools)(lambda given: 5)
    with pytest.raises(TypeError, match=r"^Tool 'x' must return bytes, got <class 'int'>$"):
        tools.get("x").call(b"")


def test_metadata_that_is_no_text_is_made_text(tools):
    metadata = {"version": 2, "tags": ["a"], "on": True, "name": "n"}
    register_tool(name="x", metadata=metadata, tools=tools)(lambda given: given)
    told = tools.get("x").told_metadata("node-1")
    assert told == {"version": "2", "tags": '["a"]', "on": "true", "name": "n", "node_id": "node-1"}


def test_a_typed_function_has_the_schema_of_its_annotations(tools):
    @register_tool(name="typed", tools=tools)
    def typed(text: str, count: int = 1, mode: Literal["a", "b"] = "a", note: Optional[str] = None,
              of: list[float] = ()) -> dict:
        """Says it again."""
        return {"said": text * count}

    tool = tools.get("typed")
    assert tool.description == "Says it again."
    assert tool.input_spec == {
        "type": "object",
        "properties": {
            "text": {"type": "string"},
            "count": {"type": "integer"},
            "mode": {"enum": ["a", "b"]},
            "note": {"anyOf": [{"type": "string"}, {"type": "null"}]},
            "of": {"type": "array", "items": {"type": "number"}},
        },
        "required": ["text"],
        "additionalProperties": False,
    }
    assert json.loads(tool.call(b'{"text":"ab","count":2}')) == {"said": "abab"}


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (b"{}", "the parameter `text` is missing"),
        (b'{"text":"a","other":1}', "unknown parameter `other`"),
        (b'{"text":"a","count":"2"}', "the parameter `count` is no integer"),
        (b'{"text":"a","count":true}', "the parameter `count` is no integer"),
        (b"[]", "the input is no JSON object"),
        (b"{", "the input is no JSON: "),
    ],
)
def test_input_that_does_not_fit_is_told(tools, given, told):
    @register_tool(name="typed", tools=tools)
    def typed(text: str, count: int = 1) -> str:
        return text * count

    with pytest.raises(ValueError, match=told):
        tools.get("typed").call(given)


def test_a_spec_that_is_given_stands_over_annotations(tools):
    @register_tool(name="typed", input_spec={"text": "string"}, tools=tools)
    def typed(text: str) -> str:
        return text

    assert tools.get("typed").input_spec == {"text": "string"}
    assert tools.get("typed").call(b'{"text":"a"}') == b'"a"'
