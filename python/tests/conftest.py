"""A registry that remembers what it was sent, and nodes that end with their test."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from toolkeep_node import Node


class Told:
    """What came, and what is answered."""

    def __init__(self):
        self.requests = []
        self.statuses = {}
        self.known = True
        self.came = threading.Condition()

    def wait_for(self, wanted, seconds=20):
        with self.came:
            assert self.came.wait_for(lambda: wanted(self.requests), seconds), self.requests

    def bodies(self, method, path):
        return [body for m, p, body, _ in self.requests if (m, p) == (method, path)]


@pytest.fixture
def told():
    told = Told()

    class Answer(BaseHTTPRequestHandler):
        def answer(self):
            length = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(length) or b"null")
            status, said = self.said(body)
            with told.came:
                told.requests.append((self.command, self.path, body, self.headers.get("Authorization")))
                told.came.notify_all()
            text = json.dumps(said).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def said(self, body):
            if self.path.endswith("/heartbeat") and not told.known:
                return 404, {"error": "Node not found"}
            if self.command == "POST" and self.path == "/tools":
                status = told.statuses.get(body["name"], 201)
                if status == 409:
                    return status, {"error": "the name is taken"}
                return status, {"message": "Tool created", "id": "1"}
            return 200, {}

        do_POST = do_DELETE = do_GET = answer

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    told.url = f"http://127.0.0.1:{server.server_port}"
    yield told
    server.shutdown()
    server.server_close()


@pytest.fixture
def start():
    """Starts nodes on free ports."""
    nodes = []

    def start(tools, **options):
        node = Node(0, tools=tools, **options).start()
        nodes.append(node)
        return node

    yield start
    for node in nodes:
        node.stop(grace=1)
