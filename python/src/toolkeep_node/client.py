"""Calls a tool straight over gRPC."""

from __future__ import annotations

import json
from typing import Any, Dict, Optional

import grpc

from .plaintext import allowed, check_key_host
from .proto import rpc_service_pb2, rpc_service_pb2_grpc


def call_tool(
    tool_name: str,
    input_data: Any,
    host: str = "localhost",
    port: int = 50051,
    *,
    timeout: Optional[float] = None,
    key: Optional[str] = None,
    insecure: Optional[bool] = None,
) -> Dict[str, Any]:
    """Answers `success`, `output`, `error` and `metadata`; raises nothing for what went wrong on the way.

    `key` goes along as a bearer token, for a server that asks for one. The call has no TLS: with a key
    for a host beyond this machine it raises `ValueError`, unless `insecure` (TOOLKEEP_INSECURE=1) says
    that the network is trusted. `timeout` is in seconds.
    """
    if key:
        check_key_host(host, allowed(insecure, "TOOLKEEP_INSECURE"))
    credential = [("authorization", f"Bearer {key}")] if key else None
    request = rpc_service_pb2.CallFunctionRequest(
        tool_name=tool_name, input=json.dumps(input_data).encode("utf-8")
    )
    with grpc.insecure_channel(f"{host}:{port}") as channel:
        stub = rpc_service_pb2_grpc.ToolExecutorStub(channel)
        try:
            response = stub.CallFunction(request, timeout=timeout, metadata=credential)
        except grpc.RpcError as error:
            return {"success": False, "output": None, "error": f"RPC failed: {error}", "metadata": {}}
    return {
        "success": response.success,
        "output": _output(response.output),
        "error": response.error,
        "metadata": dict(response.metadata),
    }


def _output(output: bytes) -> Any:
    try:
        return json.loads(output.decode("utf-8"))
    except ValueError:
        return output.decode("utf-8", errors="replace")
