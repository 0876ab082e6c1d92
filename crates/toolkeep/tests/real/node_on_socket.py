"""A runtime with the package in `python/` on the socket that TOOLKEEP_NODE_SOCKET names."""

import json
import signal

from toolkeep_node import Node, register_tool


@register_tool(name="reverse_text", input_spec={"text": "string"},
               description="Reverses a given string input")
def reverse_text(given: bytes) -> bytes:
    return json.dumps({"result": json.loads(given)["text"][::-1]}).encode()


# Waited for below: a handler that sets an event may interrupt the wait for it, which then never ends.
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
node = Node(0).start()
print("ready", flush=True)
signal.sigwait({signal.SIGTERM})
node.stop()
