# tools/my_tools.py

from sdk.register import register_tool

@register_tool(
    name="reverse",
    input_spec={"text": "string"},
    description="Reverses the input string",
    metadata={"version": "1.0.0", "node_id": "node-abc123"}
)
def reverse_tool(input_bytes: bytes) -> bytes:
    data = input_bytes.decode()
    reversed_data = data[::-1]
    return reversed_data.encode()
