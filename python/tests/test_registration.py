"""What a registry is told."""

import toolkeep_node.registration as registration
from toolkeep_node import ToolSet, register_tool


def two():
    tools = ToolSet()
    register_tool(name="a", input_spec={"x": "string"}, description="A.", tools=tools)(lambda given: given)
    register_tool(name="b", metadata={"version": "1"}, tools=tools)(lambda given: given)
    return tools


def test_each_tool_is_registered_with_the_key_and_the_nodes_id(told, start):
    start(two(), registry_url=told.url, key="k-1", node_id="node-1")
    assert told.bodies("POST", "/tools") == [
        {"name": "a", "node_id": "node-1", "input_spec": {"x": "string"}, "metadata": {}, "description": "A."},
        {"name": "b", "node_id": "node-1", "input_spec": {}, "metadata": {"version": "1"}, "description": ""},
    ]
    assert {key for *_, key in told.requests} == {"Bearer k-1"}


def test_the_variables_of_the_environment_count(told, start, monkeypatch):
    monkeypatch.setenv("ORG_SYSTEM_TOOLS_REGISTRY_URL", told.url + "/")
    monkeypatch.setenv("TOOLKEEP_KEY", "k-2")
    monkeypatch.setenv("TOOLKEEP_NODE_ID", "node-2")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    start(two())
    assert [body["node_id"] for body in told.bodies("POST", "/tools")] == ["node-2", "node-2"]


def test_a_tool_that_is_refused_holds_up_no_other_and_is_tried_again(told, start, monkeypatch):
    monkeypatch.setattr(registration, "BEAT", 0.05)
    told.statuses["a"] = 409
    node = start(two(), registry_url=told.url, node_id="node-1")
    assert "a" in node.registration.failed and "b" not in node.registration.failed
    told.statuses.clear()
    told.wait_for(lambda all: sum(1 for m, p, *_ in all if (m, p) == ("POST", "/tools")) >= 4)
    told.wait_for(lambda _: not node.registration.failed)


def test_a_node_without_a_key_is_told_which_variable_to_set(told, start, monkeypatch, caplog):
    monkeypatch.setattr(registration, "BEAT", 0.05)
    monkeypatch.delenv("TOOLKEEP_KEY", raising=False)
    told.statuses.update(a=401, b=409)
    node = start(two(), registry_url=told.url, node_id="node-1")
    failed = node.registration.failed
    assert failed["a"] == "no key (401). Set TOOLKEEP_KEY to the node's key (`toolkeep node invite`)"
    assert failed["b"] == "409: the name is taken"
    assert node.told().endswith(f"0 tools registered at {told.url}, 2 refused")
    # It tries again and again, and says it once.
    told.wait_for(lambda all: sum(1 for m, p, *_ in all if (m, p) == ("POST", "/tools")) >= 8)
    assert sum("tool a is not registered" in line for line in caplog.messages) == 1
    # Positive control: with a key it is the key that is wrong.
    told.statuses.pop("b")
    node = start(two(), registry_url=told.url, node_id="node-1", key="k-9")
    failed = node.registration.failed
    assert failed == {"a": "the key is refused (401). Set TOOLKEEP_KEY to the node's key (`toolkeep node invite`)"}


def test_a_registry_that_forgot_the_node_is_told_again(told, start, monkeypatch):
    monkeypatch.setattr(registration, "BEAT", 0.05)
    start(two(), registry_url=told.url, node_id="node-1")
    told.known = False
    told.wait_for(lambda all: sum(1 for m, p, *_ in all if (m, p) == ("POST", "/tools")) >= 4)


def test_signs_of_life_then_draining_then_its_tools_are_taken_back(told, start, monkeypatch):
    monkeypatch.setattr(registration, "BEAT", 0.05)
    node = start(two(), registry_url=told.url, node_id="node-1")
    beat = "/v1/nodes/node-1/heartbeat"
    told.wait_for(lambda all: any(p == beat for _, p, *_ in all))
    node.stop(grace=0)
    assert told.bodies("POST", beat)[-1] == {"state": "draining"}
    taken = [path for method, path, *_ in told.requests if method == "DELETE"]
    assert taken == ["/tools/node-1/a", "/tools/node-1/b"]
    last = [path for _, path, *_ in told.requests]
    assert last.index("/tools/node-1/a") > max(i for i, path in enumerate(last) if path == beat)


def test_without_a_registry_the_node_serves_all_the_same(start):
    assert start(two(), registry_url="http://127.0.0.1:1").port
    assert start(two()).registration is None
