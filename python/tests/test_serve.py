"""Nodes on the loopback, called over gRPC."""

import json
import threading

import grpc
import pytest

from toolkeep_node import Node, ToolSet, call_tool, is_cancelled, register_tool, report_progress
from toolkeep_node.proto import node_pb2, node_pb2_grpc, rpc_service_pb2, rpc_service_pb2_grpc


@pytest.fixture
def tools():
    tools = ToolSet()

    @register_tool(name="reverse_text", input_spec={"text": "string"}, tools=tools,
                   metadata={"version": "1.0.0", "node_id": "node-001"})
    def reverse_text(given: bytes) -> bytes:
        return json.dumps({"result": json.loads(given)["text"][::-1]}).encode()

    @register_tool(name="broken", tools=tools)
    def broken(given: bytes) -> bytes:
        raise RuntimeError("the disk is full")

    register_tool(name="plain", tools=tools)(lambda given: b"no json \xff")
    return tools


def test_the_cluster_tools_expected_output_is_what_comes(tools, start):
    node = start(tools)
    assert call_tool("reverse_text", {"text": "hello world"}, "127.0.0.1", node.port) == {
        "success": True,
        "output": {"result": "dlrow olleh"},
        "error": "",
        "metadata": {"version": "1.0.0", "node_id": "node-001"},
    }


def test_a_failure_is_told_in_words_without_a_trace(tools, start):
    node = start(tools)
    answer = call_tool("broken", {}, "127.0.0.1", node.port)
    assert answer == {
        "success": False, "output": "", "error": "the disk is full", "metadata": {},
    }
    answer = call_tool("gone", {}, "127.0.0.1", node.port)
    assert (answer["success"], answer["error"]) == (False, "Tool 'gone' not found.")


def test_output_that_is_no_json_stays_text(tools, start):
    answer = call_tool("plain", {}, "127.0.0.1", start(tools).port)
    assert answer["output"] == "no json \ufffd"


def test_a_missing_node_is_reported_with_the_cluster_tools_text(tools):
    answer = call_tool("reverse_text", {}, "127.0.0.1", 1, timeout=5)
    assert (answer["success"], answer["output"], answer["metadata"]) == (False, None, {})
    assert answer["error"].startswith("RPC failed: ")


def test_a_cluster_tools_client_works_with_only_its_imports_changed(tools, start):
    node = start(tools)
    channel = grpc.insecure_channel(f"127.0.0.1:{node.port}")
    stub = rpc_service_pb2_grpc.ToolExecutorStub(channel)
    request = rpc_service_pb2.CallFunctionRequest(
        tool_name="reverse_text", input=json.dumps({"text": "ab"}).encode("utf-8")
    )
    response = stub.CallFunction(request)
    assert json.loads(response.output) == {"result": "ba"}
    channel.close()


def test_progress_comes_before_the_result_and_a_call_can_be_cancelled(start):
    tools, begun = ToolSet(), threading.Event()

    @register_tool(name="slow", tools=tools)
    def slow() -> str:
        report_progress(1, 2, "half")
        begun.set()
        while not is_cancelled():
            threading.Event().wait(0.01)
        return "gave up"

    with grpc.insecure_channel(f"127.0.0.1:{start(tools).port}") as channel:
        stub = node_pb2_grpc.NodeStub(channel)
        events = stub.Call(node_pb2.CallRequest(call_id="c", tool_name="slow", input=b"{}"))
        first = next(events)
        assert (first.progress.done, first.progress.total, first.progress.message) == (1, 2, "half")
        assert begun.wait(10)
        cancel = node_pb2.CancelRequest(call_id="c")
        other = stub.Cancel(cancel, metadata=[("authorization", "Bearer other")])
        assert not other.found, "nobody cancels the calls of others"
        assert stub.Cancel(cancel).found
        assert json.loads(next(events).result.output) == "gave up"
        assert not list(events)
        assert not stub.Cancel(cancel).found


def test_a_caller_that_goes_away_is_seen_by_the_tool(start):
    tools, begun, ended = ToolSet(), threading.Event(), threading.Event()

    @register_tool(name="slow", tools=tools)
    def slow() -> str:
        begun.set()
        while not is_cancelled():
            threading.Event().wait(0.01)
        ended.set()
        return ""

    node = start(tools)
    answer = call_tool("slow", {}, "127.0.0.1", node.port, timeout=0.5)
    assert answer["error"].startswith("RPC failed: ")
    assert begun.is_set() and ended.wait(10)


def test_the_tools_are_listed(tools, start):
    with grpc.insecure_channel(f"127.0.0.1:{start(tools).port}") as channel:
        listed = node_pb2_grpc.NodeStub(channel).List(node_pb2.ListRequest())
    assert listed.node_id == "node-001"
    assert [tool.name for tool in listed.tools] == ["reverse_text", "broken", "plain"]
    assert json.loads(listed.tools[0].input_spec) == {"text": "string"}


def test_plaintext_for_others_is_never_an_accident(tools):
    for host in ["0.0.0.0", "::", "10.1.2.3", "node.example"]:
        with pytest.raises(ValueError, match="in plaintext"):
            Node(0, host=host, tools=tools)
    node = Node(0, host="0.0.0.0", tools=tools, insecure=True)
    assert node.port
    node.stop(grace=0)


def test_calls_that_run_are_waited_for_at_the_end(tools):
    begun, go = threading.Event(), threading.Event()

    @register_tool(name="slow", tools=tools)
    def slow() -> str:
        begun.set()
        go.wait(10)
        return "done"

    node = Node(0, tools=tools).start()
    answers = []
    caller = threading.Thread(
        target=lambda: answers.append(call_tool("slow", {}, "127.0.0.1", node.port))
    )
    caller.start()
    assert begun.wait(10)
    stopper = threading.Thread(target=node.stop)
    stopper.start()
    go.set()
    caller.join(10)
    stopper.join(10)
    assert answers[0]["output"] == "done"


def test_on_a_socket_only_its_owner_and_group_call_and_no_port_is_open(tools, tmp_path):
    path = tmp_path / "runtime.sock"
    node = Node(0, tools=tools, socket=str(path)).start()
    try:
        assert node.port == 0
        assert path.stat().st_mode & 0o777 == 0o660
        with grpc.insecure_channel(f"unix:{path}") as channel:
            stub = rpc_service_pb2_grpc.ToolExecutorStub(channel)
            asked = rpc_service_pb2.CallFunctionRequest(
                tool_name="reverse_text", input=b'{"text": "ab"}'
            )
            answer = stub.CallFunction(asked, timeout=10)
        assert (answer.success, json.loads(answer.output)) == (True, {"result": "ba"})
    finally:
        node.stop(0)
