"""A node with the package in `python/`: prints `{"port": N}` once it is registered."""

import json
import signal
import threading

from toolkeep_node import Node, register_tool, report_progress


@register_tool(name="reverse_text", input_spec={"text": "string"}, metadata={"version": 1},
               description="Reverses a given string input")
def reverse_text(given: bytes) -> bytes:
    return json.dumps({"result": json.loads(given)["text"][::-1]}).encode()


@register_tool(name="add")
def add(a: int, b: int) -> dict:
    """Adds two numbers."""
    report_progress(1, 2, "half")
    return {"sum": a + b}


@register_tool(name="broken")
def broken() -> str:
    """Never works."""
    raise RuntimeError("the disk is full")


ending = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: ending.set())
node = Node(0).start()
print(json.dumps({"port": node.port, "failed": node.registration.failed}), flush=True)
ending.wait()
node.stop()
