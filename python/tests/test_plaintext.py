"""Where a key is sent in plaintext. Nothing here leaves this machine."""

import pytest

from toolkeep_node import ToolSet, call_tool, register_tool
from toolkeep_node.plaintext import check_key_host, check_key_url
from toolkeep_node.registration import Registration


def tools():
    tools = ToolSet()
    register_tool(name="a", tools=tools)(lambda given: given)
    return tools


def abroad(told):
    """The registry's own address, written so that it does not read as this machine's."""
    return told.url.replace("127.0.0.1", "[::ffff:127.0.0.1]")


def test_a_key_is_not_sent_in_plaintext_beyond_this_machine(told, start):
    with pytest.raises(ValueError, match="beyond this machine"):
        start(tools(), registry_url=abroad(told), key="k-1", node_id="node-1")
    with pytest.raises(ValueError, match="TOOLKEEP_INSECURE"):
        Registration("http://192.0.2.1:8080", "k-1", "node-1", tools())
    assert told.requests == [], "nothing was dialled"
    # The control: the same address, where it is said to be meant.
    start(tools(), registry_url=abroad(told), key="k-1", node_id="node-1", insecure_registry=True)
    assert {key for *_, key in told.requests} == {"Bearer k-1"}


def test_the_variable_says_that_it_is_meant(told, start, monkeypatch):
    monkeypatch.setenv("TOOLKEEP_INSECURE", "1")
    start(tools(), registry_url=abroad(told), key="k-2", node_id="node-1")
    assert {key for *_, key in told.requests} == {"Bearer k-2"}


def test_without_a_key_cluster_tools_nodes_register_anywhere(told, start):
    start(tools(), registry_url=abroad(told), node_id="node-1")
    assert {key for *_, key in told.requests} == {None}


def test_a_call_with_a_key_is_not_made_in_plaintext_beyond_this_machine(start):
    node = start(tools())
    with pytest.raises(ValueError, match="beyond this machine"):
        call_tool("a", {}, "192.0.2.1", 1, key="k")
    with pytest.raises(ValueError, match="beyond this machine"):
        call_tool("a", {}, "::ffff:127.0.0.1", node.port, key="k")
    assert call_tool("a", {}, "127.0.0.1", node.port, key="k")["success"]


def test_what_is_this_machine():
    for url in ("https://a.example", "http://127.9.9.9:1", "http://[::1]:1", "http://localhost", "http://a.localhost."):
        check_key_url(url, False)
    for url in ("http://a.example", "http://10.0.0.1", "http://localhost.example", "http://127.0.0.1.example", "http:///"):
        with pytest.raises(ValueError):
            check_key_url(url, False)
        check_key_url(url, True)
    with pytest.raises(ValueError):
        check_key_host("", False)
