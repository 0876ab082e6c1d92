"""A node that connects to the server: no port of it is open to anybody.

The server speaks first over the connection, and each side shows its certificate. gRPC takes no connection that
somebody else made, so it serves on a socket's file of this process, and bytes are carried between the two.
"""

from __future__ import annotations

import logging
import shutil
import socket
import tempfile
import threading
from pathlib import Path
from typing import Optional, Tuple

log = logging.getLogger("toolkeep_node")

GREETING = "toolkeep-node 1 "
# The longest id, in bytes.
ID = 128
# For a connection, in seconds.
CONNECT = 5.0
# Between two tries, in seconds: the first, and at most.
FIRST, LAST = 0.1, 2.0
# A connection that stood for so long was a good one.
STOOD = 5.0
PART = 64 * 1024


def place(server: str) -> Tuple[str, int]:
    """`HOST:PORT`, as it is written for `connect`."""
    host, colon, port = server.rpartition(":")
    host = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    if not colon or not host or "/" in server or not port.isdigit() or not 0 < int(port) < 65536:
        raise ValueError(f"connect: {server!r} is not written as HOST:PORT")
    return host, int(port)


class Dialled:
    """Connects again and again, until it is stopped."""

    def __init__(self, server: str, node_id: str) -> None:
        if not node_id or "\n" in node_id or len(node_id.encode()) > ID:
            raise ValueError(f"a node that connects has an id of 1 to {ID} bytes on one line")
        self._server, self._node_id = place(server), node_id
        self._folder = Path(tempfile.mkdtemp(prefix="toolkeep-node-"))
        self.inner = self._folder / "calls.sock"
        self._ended = threading.Event()
        self._open: Optional[Tuple[socket.socket, socket.socket]] = None
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="toolkeep-dial", daemon=True)

    def start(self) -> None:
        """Connects from here on."""
        self._thread.start()

    def stop(self) -> None:
        """Breaks the connection, and removes the socket's file."""
        self._ended.set()
        with self._lock:
            ends, self._open = self._open, None
        for end in ends or ():
            _close(end)
        if self._thread.is_alive():
            self._thread.join(CONNECT + 1)
        shutil.rmtree(self._folder, ignore_errors=True)

    def _run(self) -> None:
        wait = FIRST
        while not self._ended.is_set():
            stood = threading.Event()
            timer = threading.Timer(STOOD, stood.set)
            timer.daemon = True
            timer.start()
            try:
                self._once()
            except OSError as error:
                log.warning("not connected to %s:%d: %s", *self._server, error)
            timer.cancel()
            wait = FIRST if stood.is_set() else wait
            self._ended.wait(wait)
            wait = min(wait * 2, LAST)

    def _once(self) -> None:
        outer = socket.create_connection(self._server, CONNECT)
        inner = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            outer.settimeout(None)
            outer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            # One that is cut off without a word is noticed, though nothing is said over it.
            outer.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            for name, value in (("TCP_KEEPIDLE", 10), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 2)):
                if hasattr(socket, name):
                    outer.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
            outer.sendall(f"{GREETING}{self._node_id}\n".encode())
            inner.connect(str(self.inner))
            with self._lock:
                if self._ended.is_set():
                    return
                self._open = (outer, inner)
            log.info("connected to %s:%d", *self._server)
            there = threading.Thread(target=_carry, args=(inner, outer), daemon=True)
            there.start()
            _carry(outer, inner)
            there.join()
        finally:
            with self._lock:
                self._open = None
            outer.close()
            inner.close()


def _carry(source: socket.socket, to: socket.socket) -> None:
    """Until one of them ends; then both do."""
    try:
        while part := source.recv(PART):
            to.sendall(part)
    except OSError:
        pass
    _close(source)
    _close(to)


def _close(end: socket.socket) -> None:
    try:
        end.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass
