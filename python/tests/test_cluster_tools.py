"""The cluster tools' own examples, with nothing changed but the import lines of `grpc.…`; only the port is a free one."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from toolkeep_node import ToolSet, register_tool

HERE = Path(__file__).parent
SOURCE = str(HERE.parent / "src")


@pytest.fixture
def example(tmp_path):
    """The examples' folder, with another port."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    folder = tmp_path / "cluster_tools"
    shutil.copytree(HERE / "cluster_tools", folder)
    for path in folder.rglob("*.py"):
        path.write_text(path.read_text().replace("50051", str(port)))
    return folder, port


def run(folder, script, **more):
    environment = {**os.environ, "PYTHONPATH": SOURCE, **more}
    return subprocess.Popen(
        [sys.executable, script], cwd=folder, env=environment,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )


def test_the_server_example_registers_serves_and_ends_with_its_tools_taken_back(example, told):
    folder, port = example
    server = run(folder, "run_server.py", ORG_SYSTEM_TOOLS_REGISTRY_URL=told.url)
    try:
        told.wait_for(lambda all: any(path == "/tools" for _, path, *_ in all))
        assert told.bodies("POST", "/tools") == [
            {
                "name": "reverse",
                "node_id": "node-abc123",
                "input_spec": {"text": "string"},
                "metadata": {"version": "1.0.0", "node_id": "node-abc123"},
                "description": "Reverses the input string",
            }
        ]
        from toolkeep_node import call_tool

        answer = call_tool("reverse", "ab", "127.0.0.1", port, timeout=10)
        assert answer == {
            "success": True,
            "output": "ba",
            "error": "",
            "metadata": {"version": "1.0.0", "node_id": "node-abc123"},
        }
    finally:
        server.send_signal(signal.SIGTERM)
        _, said = server.communicate(timeout=20)
    assert server.returncode == 0, said
    listens = f"node-abc123 listens on 127.0.0.1:{port}, 1 tool registered at {told.url}"
    assert listens in said.splitlines(), said
    assert [p for m, p, *_ in told.requests if m == "DELETE"] == ["/tools/node-abc123/reverse"]


def test_what_is_wrong_with_the_start_is_said_in_one_line(example, tmp_path):
    folder, _ = example
    (tmp_path / "empty").mkdir()
    for name, value, line in [
        (
            "TOOLKEEP_NODE_TLS",
            str(tmp_path / "empty"),
            f"error: TOOLKEEP_NODE_TLS={tmp_path / 'empty'} has no node.key; run `toolkeep node join` first",
        ),
        (
            "TOOLKEEP_NODE_HOST",
            "0.0.0.0",
            "error: listening on 0.0.0.0 in plaintext lets anyone who reaches it call the tools; listen on "
            "127.0.0.1, or say insecure=True (TOOLKEEP_NODE_INSECURE=1)",
        ),
    ]:
        server = run(folder, "run_server.py", **{name: value})
        _, said = server.communicate(timeout=20)
        assert (server.returncode, said.splitlines()) == (1, [line])


def test_the_client_example_prints_the_expected_output(example, start):
    folder, port = example
    tools = ToolSet()

    @register_tool(name="reverse_text", metadata={"version": "1.0.0", "node_id": "node-001"}, tools=tools)
    def reverse_text(text: str) -> dict:
        return {"result": text[::-1]}

    node = start(tools)
    script = folder / "grpc_client_example.py"
    script.write_text(script.read_text().replace(str(port), str(node.port)))
    client = run(folder, script.name)
    out, said = client.communicate(timeout=30)
    assert client.returncode == 0, said
    assert out.startswith("Response:\n")
    assert json.loads(out.removeprefix("Response:\n")) == {
        "success": True,
        "output": {"result": "dlrow olleh"},
        "error": "",
        "metadata": {"version": "1.0.0", "node_id": "node-001"},
    }
