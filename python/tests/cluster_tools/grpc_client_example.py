import grpc
import json
from toolkeep_node.proto import rpc_service_pb2, rpc_service_pb2_grpc

def call_tool(tool_name: str, input_data: dict, host: str = "localhost", port: int = 50051):
    channel = grpc.insecure_channel(f"{host}:{port}")
    stub = rpc_service_pb2_grpc.ToolExecutorStub(channel)

    # Serialize input as JSON bytes
    input_bytes = json.dumps(input_data).encode("utf-8")

    # Create the request message
    request = rpc_service_pb2.CallFunctionRequest(
        tool_name=tool_name,
        input=input_bytes
    )

    try:
        # Send the gRPC request
        response = stub.CallFunction(request)

        # Deserialize output (assumed to be JSON)
        output = None
        try:
            output = json.loads(response.output.decode("utf-8"))
        except Exception:
            output = response.output.decode("utf-8")

        return {
            "success": response.success,
            "output": output,
            "error": response.error,
            "metadata": dict(response.metadata)
        }

    except grpc.RpcError as e:
        return {
            "success": False,
            "output": None,
            "error": f"RPC failed: {e}",
            "metadata": {}
        }


if __name__ == "__main__":
    result = call_tool(
        tool_name="reverse_text",
        input_data={"text": "hello world"},
        host="localhost",
        port=50051
    )

    print("Response:")
    print(json.dumps(result, indent=2))
