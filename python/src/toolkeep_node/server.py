"""Serves the tools of this process over gRPC."""

from __future__ import annotations

import json
import logging
import os
import queue
import signal
import sys
import threading
from concurrent import futures
from pathlib import Path
from typing import Any, Dict, Iterator, Optional, Tuple

import grpc

from . import calls
from .dial import Dialled
from .proto import node_pb2, node_pb2_grpc, rpc_service_pb2, rpc_service_pb2_grpc
from .plaintext import allowed, is_loopback
from .registration import Registration
from .tools import ToolSet, registry

log = logging.getLogger("toolkeep_node")

MAX_MESSAGE = 10 * 1024 * 1024
# Progress that waits to be sent; more is left out, for nobody waits to tell it.
PROGRESS = 16
# How often a call with progress looks whether it was given up, in seconds.
LOOK = 0.05


class Executor(rpc_service_pb2_grpc.ToolExecutorServicer):
    """The cluster tools' calls. What went wrong is told in words, and its trace stays in this process's log."""

    def __init__(self, tools: ToolSet, node_id: str) -> None:
        self._tools, self._node_id = tools, node_id

    def run(self, name: str, given: bytes, running: calls.Running) -> Dict[str, Any]:
        """The fields of an answer."""
        try:
            tool = self._tools.get(name)
            output = calls.within(running, lambda: tool.call(given))
        except LookupError as error:
            return {"success": False, "error": _line(error, name)}
        except Exception as error:  # noqa: BLE001: whatever a tool raises is an answer.
            log.exception("tool %s failed", name)
            return {"success": False, "error": _line(error, name)}
        return {"success": True, "output": output, "metadata": tool.told_metadata(self._node_id)}

    def CallFunction(self, request, context):  # noqa: N802: gRPC's name.
        running = calls.Running()
        context.add_callback(running.cancelled.set)
        answer = self.run(request.tool_name, request.input, running)
        return rpc_service_pb2.CallFunctionResponse(**answer)


class Beside(node_pb2_grpc.NodeServicer):
    """List, calls with progress, cancel."""

    def __init__(self, executor: Executor, tools: ToolSet, node_id: str, workers: int) -> None:
        self._executor, self._tools, self._node_id = executor, tools, node_id
        self._pool = futures.ThreadPoolExecutor(workers, "toolkeep-call")
        self._running: Dict[Tuple[str, str], calls.Running] = {}
        self._lock = threading.Lock()
        self.draining = False

    def List(self, request, context):  # noqa: N802
        tools = [
            node_pb2.Tool(
                name=tool.name,
                description=tool.description,
                input_spec=json.dumps(tool.input_spec).encode(),
                metadata=json.dumps(tool.metadata).encode(),
            )
            for tool in self._tools.all()
        ]
        return node_pb2.ListResponse(node_id=self._node_id, tools=tools, draining=self.draining)

    def Call(self, request, context) -> Iterator[Any]:  # noqa: N802
        told: "queue.Queue[Any]" = queue.Queue(PROGRESS)

        def tell(done: float, total: Optional[float], message: str) -> None:
            try:
                told.put_nowait(node_pb2.Progress(done=done, total=total, message=message))
            except queue.Full:
                pass

        running = calls.Running(tell)
        context.add_callback(running.cancelled.set)
        key = (_who(context), request.call_id)
        if request.call_id:
            with self._lock:
                if key in self._running:
                    context.abort(
                        grpc.StatusCode.ALREADY_EXISTS,
                        "a call with this `call_id` is already running",
                    )
                self._running[key] = running
        try:
            call = self._pool.submit(
                self._executor.run, request.tool_name, request.input, running
            )
            while not call.done() and context.is_active():
                try:
                    yield node_pb2.CallEvent(progress=told.get(timeout=LOOK))
                except queue.Empty:
                    pass
            if context.is_active():
                while not told.empty():
                    yield node_pb2.CallEvent(progress=told.get_nowait())
                yield node_pb2.CallEvent(result=node_pb2.Result(**call.result()))
        finally:
            with self._lock:
                self._running.pop(key, None)

    def Cancel(self, request, context):  # noqa: N802
        with self._lock:
            running = self._running.get((_who(context), request.call_id))
        if running is not None:
            running.cancelled.set()
        return node_pb2.CancelResponse(found=running is not None)


class Node:
    """A server of tools, and what tells the registry of it."""

    def __init__(
        self,
        port: int = 50051,
        *,
        host: Optional[str] = None,
        node_id: Optional[str] = None,
        tools: Optional[ToolSet] = None,
        registry_url: Optional[str] = None,
        key: Optional[str] = None,
        max_workers: int = 10,
        insecure: Optional[bool] = None,
        tls: Optional[str] = None,
        socket: Optional[str] = None,
        connect: Optional[str] = None,
        insecure_registry: Optional[bool] = None,
    ) -> None:
        tools = registry if tools is None else tools
        setting = os.environ.get
        host = host or setting("TOOLKEEP_NODE_HOST") or "127.0.0.1"
        insecure = allowed(insecure, "TOOLKEEP_NODE_INSECURE")
        tls = tls or setting("TOOLKEEP_NODE_TLS")
        socket = socket or setting("TOOLKEEP_NODE_SOCKET")
        connect = connect or setting("TOOLKEEP_NODE_CONNECT")
        if connect and (socket or not tls):
            raise ValueError(
                "a node that connects shows its certificate and has no socket of its own: name the "
                "folder of `toolkeep node join` as tls (TOOLKEEP_NODE_TLS)"
            )
        if not tls and not socket:
            _check_host(host, insecure)
        named = next((tool.node_id for tool in tools.all() if tool.node_id), "")
        self.node_id = node_id or setting("TOOLKEEP_NODE_ID") or named
        self._dialled = Dialled(connect, self.node_id) if connect else None
        executor = Executor(tools, self.node_id)
        self._beside = Beside(executor, tools, self.node_id, max_workers)
        self._server = grpc.server(
            futures.ThreadPoolExecutor(max_workers, "toolkeep-node"),
            options=[
                ("grpc.max_receive_message_length", MAX_MESSAGE),
                ("grpc.max_send_message_length", MAX_MESSAGE),
                ("grpc.so_reuseport", 0),
                # A client may ask every few seconds whether this is still here.
                ("grpc.http2.min_ping_interval_without_data_ms", 5_000),
                ("grpc.keepalive_permit_without_calls", 1),
            ],
        )
        rpc_service_pb2_grpc.add_ToolExecutorServicer_to_server(executor, self._server)
        node_pb2_grpc.add_NodeServicer_to_server(self._beside, self._server)
        self._health = _add_health(self._server)
        bracketed = f"[{host}]" if ":" in host else host
        address = f"{bracketed}:{port}"
        if self._dialled is not None:
            # The server asks for the certificate over the connection that was made to it.
            self.port = 0
            self._server.add_secure_port(f"unix:{self._dialled.inner}", _shown(tls))
        elif socket:
            # For a forwarder on this machine: who may open the file calls the tools.
            self.port = 0
            self._server.add_insecure_port(f"unix:{socket}")
            os.chmod(socket, 0o660)
        elif tls:
            self.port = self._server.add_secure_port(address, _shown(tls))
        else:
            self.port = self._server.add_insecure_port(address)
        url = registry_url or setting("ORG_SYSTEM_TOOLS_REGISTRY_URL")
        self.registration = None
        if url:
            key = key or setting("TOOLKEEP_KEY")
            self.registration = Registration(url, key, self.node_id, tools, insecure_registry)
        self._stopped = threading.Event()
        self._place = self._where(address, socket, connect)

    def _where(self, address: str, socket: Optional[str], connect: Optional[str]) -> str:
        if connect:
            return f"connects to {connect}"
        if socket:
            return f"listens on the socket {socket}"
        return f"listens on {address.rpartition(':')[0]}:{self.port}"

    def told(self) -> str:
        """One line for people: where it listens, and how many of its tools are registered where."""
        line = f"{self.node_id or 'a node without an id'} {self._place}"
        if self.registration is None:
            return f"{line}, no tool is registered: ORG_SYSTEM_TOOLS_REGISTRY_URL is not set"
        count, failed = self.registration.registered, len(self.registration.failed)
        tools = "1 tool" if count == 1 else f"{count} tools"
        line = f"{line}, {tools} registered at {self.registration.url}"
        return f"{line}, {failed} refused" if failed else line

    def start(self) -> "Node":
        """Listens, then registers; returns once each tool was tried once."""
        self._server.start()
        if self._dialled is None:
            log.info("node %s listens on port %d", self.node_id or "without an id", self.port)
        else:
            self._dialled.start()
        if self.registration is None:
            log.warning("ORG_SYSTEM_TOOLS_REGISTRY_URL is not set: no tool is registered")
        else:
            self.registration.start()
        return self

    def stop(self, grace: float = 10.0) -> None:
        """Tells that it drains, unregisters, and waits up to `grace` seconds for calls that run."""
        self._beside.draining = True
        if self._health is not None:
            self._health.enter_graceful_shutdown()
        if self.registration is not None:
            self.registration.stop()
        self._server.stop(grace).wait()
        if self._dialled is not None:
            self._dialled.stop()
        self._stopped.set()

    def wait(self) -> None:
        """Until it was stopped."""
        self._stopped.wait()


def _shown(folder: str) -> grpc.ServerCredentials:
    """What the folder of `toolkeep node join` holds. Only the server it joined can call then."""
    try:
        read = [Path(folder, name).read_bytes() for name in ("node.key", "node.pem", "authority.pem")]
    except OSError as error:
        name = Path(str(error.filename)).name
        why = "has no" if isinstance(error, FileNotFoundError) else f"cannot be read ({error.strerror}):"
        raise ValueError(
            f"TOOLKEEP_NODE_TLS={folder} {why} {name}; run `toolkeep node join` first"
        ) from None
    key, certificate, authority = read
    return grpc.ssl_server_credentials([(key, certificate)], authority, require_client_auth=True)


def serve(port: int = 50051, **options: Any) -> None:
    """Serves all registered tools until SIGINT or SIGTERM; the options are those of `Node`.

    Says on standard error where it listens and what is registered; what is wrong with the options is said
    there too, and ends the process with 1.
    """
    try:
        node = Node(port, **options)
    except ValueError as error:
        raise SystemExit(f"error: {error}") from None
    # A handler may interrupt the wait below. It must not need a lock that the wait holds, as that of an event.
    ending: queue.SimpleQueue = queue.SimpleQueue()
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: ending.put(None))
    node.start()
    print(node.told(), file=sys.stderr, flush=True)
    # A wait without an end would not see signals on every system.
    while True:
        try:
            ending.get(timeout=3600)
            break
        except queue.Empty:
            continue
    node.stop()


def _check_host(host: str, insecure: bool) -> None:
    if not is_loopback(host) and not insecure:
        raise ValueError(
            f"listening on {host} in plaintext lets anyone who reaches it call the tools; "
            "listen on 127.0.0.1, or say insecure=True (TOOLKEEP_NODE_INSECURE=1)"
        )


def _add_health(server: Any) -> Any:
    try:
        from grpc_health.v1 import health, health_pb2, health_pb2_grpc
    except ImportError:
        return None
    answers = health.HealthServicer()
    health_pb2_grpc.add_HealthServicer_to_server(answers, server)
    for name in ("", "toolrpc.ToolExecutor", "toolkeep.node.v1.Node"):
        answers.set(name, health_pb2.HealthCheckResponse.SERVING)
    return answers


def _who(context: Any) -> str:
    given = [value for name, value in context.invocation_metadata() if name == "authorization"]
    return str(given[0]) if given else ""


def _line(error: BaseException, name: str) -> str:
    """In words, without a trace; a failure without words has its kind."""
    return str(error).strip() or f"Tool '{name}' failed: {type(error).__name__}"
