"""A scripted model with tool search, as OpenAI Responses and Anthropic Messages document it.

Prints `{"url": …}` once it listens on the loopback. It sees the tools that a request has loaded and
no others: it searches, calls the first tool that it finds with the note of the task, and ends with
the result. Requests that the providers refuse are refused with their status and type.
"""

import json
import re
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

TASK = "Adds a note"
NOTE = {"text": "the first note"}


class Refused(Exception):
    pass


def check(holds, message):
    if not holds:
        raise Refused(message)


def words(text):
    return set(re.findall("[a-z]+", text.lower()))


def best(functions):
    """What the provider's own search finds: the function with the most words of the task."""
    shared = lambda it: len(words(TASK) & words(it["name"] + " " + it["description"]))
    return max(functions, key=shared, default=None)


class Responses:
    """`POST /v1/responses`."""

    def __init__(self, body):
        self.search, self.loaded, self.deferred = None, {}, []
        for tool in body["tools"]:
            match tool["type"]:
                case "tool_search":
                    check(self.search is None, "two search tools")
                    self.search = tool
                case "namespace":
                    check(tool["description"] and tool["tools"], "an empty namespace")
                    for function in tool["tools"]:
                        self.add(function, tool["name"])
                case "function":
                    self.add(tool, None)
        check(not self.deferred or self.search, "deferred tools without `tool_search`")
        self.input = body["input"]
        self.read_input()

    def add(self, function, namespace):
        check(isinstance(function["parameters"], dict), "a function without parameters")
        if function.get("defer_loading"):
            self.deferred.append((function, namespace))
        else:
            self.loaded[function["name"]] = namespace

    def load(self, output):
        for tool in output["tools"]:
            namespace = tool["name"] if tool["type"] == "namespace" else None
            for function in tool["tools"] if namespace else [tool]:
                check(function["defer_loading"] is True, "a loaded function is a deferred one")
                # A function outside of a namespace has one of its own name.
                self.loaded[function["name"]] = namespace or function["name"]

    def read_input(self):
        pending = set()
        for item in self.input:
            match item.get("type"):
                case "tool_search_call" if item["execution"] == "client":
                    pending.add(item["call_id"])
                case "tool_search_output":
                    if item["execution"] == "client":
                        check(item["call_id"] in pending, "no search has this `call_id`")
                        pending.discard(item["call_id"])
                    self.load(item)
                case "function_call":
                    name = item["name"]
                    check(name in self.loaded, f"unknown function '{name}'")
                    check(
                        self.loaded[name] == item.get("namespace"),
                        f"Missing namespace for function_call '{name}'. It does not exist in the "
                        "default namespace. Round-trip the model's function_call item with its "
                        "namespace field included.",
                    )
                    pending.add(item["call_id"])
                case "function_call_output":
                    check(item["call_id"] in pending, "no call has this `call_id`")
                    pending.discard(item["call_id"])
        check(not pending, f"No tool output found for {sorted(pending)}")

    def call(self, name):
        call = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": name,
                "arguments": json.dumps(NOTE), "status": "completed"}
        namespace = self.loaded[name]
        return call | ({"namespace": namespace} if namespace else {})

    def output(self):
        last = self.input[-1]
        if last.get("type") == "function_call_output":
            text = {"type": "output_text", "text": f"Done: {last['output']}", "annotations": []}
            return [{"type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
                     "content": [text]}]
        if last.get("type") == "tool_search_output":
            return [self.call(best(last["tools"][0]["tools"])["name"])]
        call = {"type": "tool_search_call", "id": "tsc_1", "status": "completed"}
        if self.search.get("execution") == "client":
            arguments = {"queries": [TASK], "limit": 2}
            return [call | {"execution": "client", "call_id": "search_1", "arguments": arguments}]
        function = best(function for function, _ in self.deferred)
        namespace = next(it for found, it in self.deferred if found is function)
        self.loaded[function["name"]] = namespace
        tools = [{"type": "namespace", "name": namespace, "description": "d", "tools": [function]}]
        server = {"execution": "server", "call_id": None}
        found = {"type": "tool_search_output", "id": "tso_1", "status": "completed", "tools": tools}
        return [call | server | {"arguments": {"paths": [namespace]}}, found | server,
                self.call(function["name"])]

    def answer(self):
        return {"id": "resp_1", "object": "response", "created_at": 1, "model": "m",
                "status": "completed", "output": self.output(), "parallel_tool_calls": True,
                "tool_choice": "auto", "tools": []}


class Messages:
    """`POST /v1/messages`."""

    OWN = {
        "tool_search_tool_bm25_20251119": "tool_search_tool_bm25",
        "tool_search_tool_regex_20251119": "tool_search_tool_regex",
    }

    def __init__(self, body):
        self.tools, self.search = {}, None
        for tool in body["tools"]:
            check(tool["name"] not in self.tools, "tools: Tool names must be unique.")
            self.tools[tool["name"]] = tool
            if (kind := tool.get("type", "custom")) != "custom":
                check(self.OWN[kind] == tool["name"], "the name of a search tool is fixed")
                self.search = tool
        loaded = {name for name, tool in self.tools.items() if not tool.get("defer_loading")}
        check(
            loaded, "All tools have defer_loading set. At least one tool must be non-deferred."
        )
        self.loaded, self.messages = loaded, body["messages"]
        self.read_messages()

    def refer(self, block):
        name = block["tool_name"]
        is_deferred = self.tools.get(name, {}).get("defer_loading")
        check(is_deferred, f"Tool reference '{name}' has no corresponding tool definition")
        self.loaded.add(name)

    def read_messages(self):
        pending = set()
        for message in self.messages:
            content = message["content"]
            blocks = [] if isinstance(content, str) else content
            results = {it["tool_use_id"] for it in blocks if it["type"] == "tool_result"}
            check(results == pending, "`tool_use` ids were found without `tool_result` blocks")
            pending = set()
            for block in blocks:
                match block["type"]:
                    case "tool_use":
                        check(block["name"] in self.loaded, f"`{block['name']}` is not loaded")
                        pending.add(block["id"])
                    case "tool_search_tool_result":
                        for reference in block["content"]["tool_references"]:
                            self.refer(reference)
                    case "tool_result" if isinstance(block["content"], list):
                        kinds = {it["type"] for it in block["content"]}
                        check(len(kinds) == 1, "references stand alone in a result")
                        for reference in block["content"]:
                            if reference["type"] == "tool_reference":
                                self.refer(reference)

    def call(self, name, arguments, id):
        return {"type": "tool_use", "id": id, "name": name, "input": arguments}

    def content(self):
        last = self.messages[-1]["content"]
        results = [] if isinstance(last, str) else [it for it in last if it["type"] == "tool_result"]
        found = [it for result in results if isinstance(result["content"], list)
                 for it in result["content"] if it["type"] == "tool_reference"]
        if found:
            tool = best(self.tools[it["tool_name"]] for it in found)
            return [self.call(tool["name"], NOTE, "call_1")]
        if results:
            return [{"type": "text", "text": f"Done: {results[0]['content']}"}]
        if self.search is None:
            return [self.call("search_tools", {"queries": [TASK], "limit": 2}, "search_1")]
        tool = best(it for it in self.tools.values() if it.get("defer_loading"))
        is_regex = self.search["name"] == "tool_search_tool_regex"
        query = {"pattern": "(?i)note"} if is_regex else {"query": TASK}
        use = {"type": "server_tool_use", "id": "srvtoolu_1", "name": self.search["name"],
               "input": query}
        references = [{"type": "tool_reference", "tool_name": tool["name"]}]
        result = {"type": "tool_search_tool_search_result", "tool_references": references}
        return [use, {"type": "tool_search_tool_result", "tool_use_id": use["id"], "content": result},
                self.call(tool["name"], NOTE, "call_1")]

    def answer(self):
        content = self.content()
        reason = "tool_use" if any(it["type"] == "tool_use" for it in content) else "end_turn"
        return {"id": "msg_1", "type": "message", "role": "assistant", "model": "m",
                "content": content, "stop_reason": reason, "stop_sequence": None,
                "usage": {"input_tokens": 1, "output_tokens": 1}}


class Model(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        kind = {"/v1/responses": Responses, "/v1/messages": Messages}[self.path.split("?")[0]]
        try:
            status, answer = 200, kind(body).answer()
        except Refused as error:
            detail = {"type": "invalid_request_error", "message": str(error)}
            status, answer = 400, {"type": "error", "error": detail}
        data = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_):
        pass


server = ThreadingHTTPServer(("127.0.0.1", 0), Model)
print(json.dumps({"url": f"http://127.0.0.1:{server.server_port}"}), flush=True)
server.serve_forever()
