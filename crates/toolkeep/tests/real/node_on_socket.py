"""A runtime with the package in `python/` on the socket that TOOLKEEP_NODE_SOCKET names."""

import json
import signal
import threading

from toolkeep_node import Node, register_tool


@register_tool(name="reverse_text", input_spec={"text": "string"},
               description="Reverses a given string input")
def reverse_text(given: bytes) -> bytes:
    return json.dumps({"result": json.loads(given)["text"][::-1]}).encode()


ending = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: ending.set())
node = Node(0).start()
print("ready", flush=True)
ending.wait()
node.stop()
