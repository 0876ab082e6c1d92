"""A node with the package in `python/`: prints `{"port": N}` once it is registered."""

import json
import signal

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


# Waited for below: a handler that sets an event may interrupt the wait for it, which then never ends.
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
node = Node(0).start()
print(json.dumps({"port": node.port, "failed": node.registration.failed}), flush=True)
signal.sigwait({signal.SIGTERM})
node.stop()
