"""A module of its own process, with nothing but the standard library: it keeps notes.

Prints `{"port": N}` once it listens on the loopback. What it keeps, it keeps for the user that the
request names, as modules of this kind do.
"""

import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

NOTES: dict[str, list[str]] = {}


def parameter(name, kind, description, required=True):
    return {"name": name, "type": kind, "description": description, "required": required}


MANIFEST = {
    "module_name": "notes",
    "description": "Notes of each user.",
    "tools": [
        {
            "name": "notes.count_words",
            "description": "Counts words and characters.",
            "parameters": [parameter("text", "string", "The text.")],
            "required_permission": "guest",
        },
        {
            "name": "notes.append",
            "description": "Adds a note and tells its number.",
            "parameters": [parameter("text", "string", "The note.")],
            "required_permission": "user",
        },
        {
            "name": "notes.read",
            "description": "One note by its number.",
            "parameters": [parameter("number", "integer", "From 1 on.")],
            "required_permission": "user",
        },
    ],
}


def run(call):
    arguments, user = call["arguments"], call["user_id"]
    match call["tool_name"]:
        case "notes.count_words":
            text = arguments["text"]
            return {"words": len(text.split()), "characters": len(text)}
        case "notes.append":
            notes = NOTES.setdefault(user, [])
            notes.append(arguments["text"])
            return {"number": len(notes)}
        case "notes.read":
            return NOTES[user][arguments["number"] - 1]
        case name:
            raise LookupError(f"Unknown tool: {name}")


class Module(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def reply(self, value):
        body = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        if self.path == "/manifest":
            self.reply(MANIFEST)
        else:
            self.send_error(404)

    def do_POST(self):
        call = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        answer = {"tool_name": call["tool_name"], "success": True, "result": None, "error": None}
        try:
            answer["result"] = run(call)
        except Exception as error:
            answer.update(success=False, error=f"{type(error).__name__}: {error}")
        self.reply(answer)

    def log_message(self, *_):
        pass


server = ThreadingHTTPServer(("127.0.0.1", 0), Module)
print(json.dumps({"port": server.server_address[1]}), flush=True)
server.serve_forever()
