"""A node that connects, to a listener of the tests' own."""

import socket
import threading

import pytest

from toolkeep_node.dial import Dialled, place


@pytest.fixture
def listener():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(10)
        yield listener


def _echo(path):
    """Answers on the socket's file what it hears."""
    server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    server.bind(str(path))
    server.listen()

    def serve():
        while True:
            try:
                end, _ = server.accept()
            except OSError:
                return
            while part := end.recv(1024):
                end.sendall(part)
            end.close()

    threading.Thread(target=serve, daemon=True).start()
    return server


def test_it_says_which_node_it_is_and_carries_bytes_and_connects_again(listener):
    dialled = Dialled(f"127.0.0.1:{listener.getsockname()[1]}", "node-ä")
    server = _echo(dialled.inner)
    dialled.start()
    try:
        for _ in range(2):
            end, _ = listener.accept()
            end.settimeout(10)
            heard = end.makefile("rb")
            assert heard.readline() == "toolkeep-node 1 node-ä\n".encode()
            end.sendall(b"x" * 200_000 + b"\n")
            assert len(heard.readline()) == 200_001
            heard.close()
            end.close()
    finally:
        dialled.stop()
        server.close()
    assert not dialled.inner.parent.exists()


def test_its_socket_is_nobodys_but_its_owners(listener):
    dialled = Dialled(f"127.0.0.1:{listener.getsockname()[1]}", "n")
    assert dialled.inner.parent.stat().st_mode & 0o077 == 0
    dialled.stop()


@pytest.mark.parametrize("bad", ["", "host", "host:", ":1", "http://host:1", "host:0", "host:x"])
def test_where_to_connect_is_host_and_port(bad):
    with pytest.raises(ValueError, match="HOST:PORT"):
        place(bad)


def test_an_ipv6_address_stands_in_brackets():
    assert place("[::1]:5") == ("::1", 5)


@pytest.mark.parametrize("bad", ["", "a\nb", "x" * 129])
def test_an_id_that_cannot_be_greeted_with_is_refused(bad):
    with pytest.raises(ValueError, match="1 to 128 bytes"):
        Dialled("127.0.0.1:1", bad)


def test_without_a_certificate_a_node_does_not_connect(monkeypatch):
    from toolkeep_node import Node, ToolSet

    monkeypatch.delenv("TOOLKEEP_NODE_TLS", raising=False)
    with pytest.raises(ValueError, match="shows its certificate"):
        Node(0, node_id="n", tools=ToolSet(), connect="127.0.0.1:1")
