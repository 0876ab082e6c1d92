"""Runs the functions of one plugin for Toolkeep: JSON lines on standard input and output.

Whatever the plugin prints goes to standard error; answers go out on a descriptor of their own.
"""
import asyncio
import base64
import ctypes
import importlib
import importlib.metadata
import importlib.util
import inspect
import json
import os
import queue
import sys
import threading
import types

MOST_THREADS = 16

_out = os.fdopen(os.dup(1), "wb", buffering=0)
os.dup2(2, 1)
sys.stdout = sys.stderr
sys.dont_write_bytecode = True
_writing = threading.Lock()
_here = threading.local()
_asked = {}
_running = {}
_numbers = iter(range(1, 1 << 62))


class Cancelled(BaseException):
    """The call was given up."""


def _send(message):
    line = json.dumps(message, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    line = line.encode("utf-8", "replace") + b"\n"
    with _writing:
        view = memoryview(line)
        while view:
            view = view[_out.write(view):]


class Response:
    """What came of a request."""

    def __init__(self, answer):
        self.status = answer["status"]
        self.headers = answer["headers"]
        self.body = base64.b64decode(answer["body"])
        self.truncated = bool(answer.get("truncated"))

    @property
    def text(self):
        kind = self.headers.get("content-type", "")
        charset = kind.split("charset=", 1)[1].split(";")[0].strip("\" ") if "charset=" in kind else "utf-8"
        try:
            return self.body.decode(charset, "replace")
        except LookupError:
            return self.body.decode("utf-8", "replace")


def _request(method, url, headers=None, body=None, timeout=30.0):
    """Has Toolkeep ask `url`, where the operator granted its host. Redirects are answers like others."""
    if isinstance(body, str):
        body = body.encode("utf-8")
    number = next(_numbers)
    answers = queue.SimpleQueue()
    _asked[number] = answers
    try:
        http = {"method": method, "url": url, "headers": headers or {}, "timeout_ms": int(timeout * 1000)}
        if body is not None:
            http["body"] = base64.b64encode(body).decode("ascii")
        _send({"ask": number, "http": http})
        answer = answers.get()
    finally:
        _asked.pop(number, None)
    if "error" in answer:
        raise OSError(answer["error"])
    return Response(answer)


def _progress(done, total=None, message=None):
    """Tells how far the call is."""
    call = getattr(_here, "call", None)
    if call is not None:
        _send({"call": call, "progress": float(done), "total": total, "message": message})


toolkeep = types.ModuleType("toolkeep", "What a plugin may ask of Toolkeep.")
toolkeep.request = _request
toolkeep.progress = _progress
toolkeep.Response = Response
toolkeep.settings = {}
toolkeep.folder = ""
toolkeep.read_folders = []
toolkeep.write_folder = None
sys.modules["toolkeep"] = toolkeep


def _told(error, folder):
    """An exception in one line, with the plugin's own line that raised it."""
    text = str(error).strip()
    told = type(error).__name__ + (": " + text if text else "")
    if isinstance(error, SyntaxError):
        name = os.path.relpath(error.filename, folder) if error.filename else "?"
        return f"{type(error).__name__}: {error.msg} ({name} line {error.lineno})"
    place = ""
    trace = error.__traceback__
    while trace is not None:
        name = trace.tb_frame.f_code.co_filename
        if name.startswith(folder + os.sep):
            place = f" ({os.path.relpath(name, folder)} line {trace.tb_lineno})"
        trace = trace.tb_next
    return " ".join(told.split())[:4000] + place


def _version(text):
    parts = []
    for part in text.split("."):
        digits = ""
        for c in part:
            if not c.isdigit():
                break
            digits += c
        if not digits:
            break
        parts.append(int(digits))
    while parts and parts[-1] == 0:
        parts.pop()
    return parts


def _missing(dependency):
    """Why a Python module is not there as it is wanted; None where it is."""
    name, _, least = dependency.partition(">=")
    name, least = name.strip(), least.strip()
    if name == "python":
        have = ".".join(map(str, sys.version_info[:3]))
        return None if _version(have) >= _version(least) else f"Python has version {have}; {least} is required"
    try:
        found = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        found = None
    if found is None:
        return f"the Python module `{name}` is not installed"
    if not least:
        return None
    try:
        packages = importlib.metadata.packages_distributions().get(name.split(".")[0], [name])
        have = importlib.metadata.version(packages[0])
    except importlib.metadata.PackageNotFoundError:
        return f"the version of the Python module `{name}` is unknown; {least} is required"
    if _version(have) >= _version(least):
        return None
    return f"the Python module `{name}` has version {have}; {least} is required"


def _module(path, plugin, folder):
    """The module in a file of the folder, and of no other place."""
    if path == "__init__.py":
        name, search = plugin, [folder]
        spec = importlib.util.spec_from_file_location(
            name, os.path.join(folder, path), submodule_search_locations=search
        )
        if name not in sys.modules:
            module = importlib.util.module_from_spec(spec)
            sys.modules[name] = module
            try:
                spec.loader.exec_module(module)
            except BaseException:
                del sys.modules[name]
                raise
        return sys.modules[name]
    dotted = path[: -len(".py")].replace("/", ".")
    if dotted.endswith(".__init__"):
        dotted = dotted[: -len(".__init__")]
    module = importlib.import_module(dotted)
    file = os.path.realpath(getattr(module, "__file__", None) or "")
    if file != os.path.join(folder, path):
        raise ImportError(f"`{dotted}` is the name of one of Python's own modules; rename the file")
    return module


def _unfit(function, tool):
    """Why a function cannot be called with what the manifest declares; None where it can."""
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):
        return None
    kinds = inspect.Parameter
    takes = {
        name for name, p in parameters.items()
        if p.kind in (kinds.POSITIONAL_OR_KEYWORD, kinds.KEYWORD_ONLY)
    }
    any_name = any(p.kind is kinds.VAR_KEYWORD for p in parameters.values())
    given = set(tool["parameters"]) | ({"settings"} if "settings" in takes else set())
    sure = set(tool["required"]) | set(tool["defaults"]) | (given - set(tool["parameters"]))
    told = []
    for name in tool["parameters"]:
        if name not in takes and not any_name:
            told.append(f"the function has no parameter `{name}`")
    for name, p in parameters.items():
        if p.kind in (kinds.VAR_KEYWORD, kinds.VAR_POSITIONAL):
            continue
        if p.kind is kinds.POSITIONAL_ONLY:
            told.append(f"the parameter `{name}` cannot be given by its name")
        elif p.default is kinds.empty and name not in given:
            told.append(f"the function wants `{name}`, which the manifest does not declare")
        elif p.default is kinds.empty and name not in sure:
            told.append(f"the function wants `{name}`, which the manifest does not require")
    return "; ".join(told) or None


def _load(hello):
    folder = os.path.realpath(hello["folder"])
    toolkeep.folder = folder
    toolkeep.settings = hello.get("settings") or {}
    toolkeep.read_folders = hello.get("read") or []
    toolkeep.write_folder = hello.get("write")
    sys.path.insert(0, folder)
    functions, problems = {}, []

    def tell(tool, kind, message):
        problems.append({"tool": tool, "kind": kind, "message": message})

    lacking = [why for why in map(_missing, hello.get("dependencies", [])) if why]
    for why in lacking:
        tell(None, "missing", why)
    for tool in [] if lacking else hello["tools"]:
        name = tool["name"]
        missing = [why for why in map(_missing, tool.get("dependencies", [])) if why]
        if missing:
            tell(name, "missing", "; ".join(missing))
            continue
        try:
            module = _module(tool["module"], hello["plugin"], folder)
            function = getattr(module, tool["function"], None)
            if not callable(function):
                tell(name, "broken", f"`{tool['module']}` has no function `{tool['function']}`")
                continue
            why = _unfit(function, tool)
            if why:
                tell(name, "broken", f"the manifest does not fit `{tool['function']}`: {why}")
                continue
            try:
                wants = "settings" in inspect.signature(function).parameters
            except (TypeError, ValueError):
                wants = False
            functions[name] = (function, wants and "settings" not in tool["parameters"])
        except (Exception, SystemExit) as error:
            tell(name, "broken", _told(error, folder))
    return folder, functions, problems


def _call(message, functions, folder):
    number = message["call"]
    _here.call = number
    try:
        function, wants = functions[message["tool"]]
        arguments = message["arguments"]
        if wants:
            arguments = {**arguments, "settings": dict(toolkeep.settings)}
        result = function(**arguments)
        if inspect.isawaitable(result):
            result = asyncio.run(_awaited(result))
        answer = {"call": number, "result": result}
    except Cancelled:
        answer = {"call": number, "error": "the call was cancelled"}
    except BaseException as error:
        answer = {"call": number, "error": _told(error, folder)}
    finally:
        _running.pop(number, None)
        _here.call = None
    try:
        _send(answer)
    except (TypeError, ValueError, RecursionError) as error:
        _send({"call": number, "error": f"the answer is no JSON: {error}"})


async def _awaited(result):
    return await result


def main():
    lines = sys.stdin.buffer
    hello = json.loads(lines.readline())
    folder, functions, problems = _load(hello)
    _send({"ready": 1, "problems": problems})
    work = queue.SimpleQueue()
    idle = threading.Semaphore(0)
    threads = []

    def serve():
        while True:
            idle.release()
            message = work.get()
            _running[message["call"]] = threading.get_ident()
            try:
                _call(message, functions, folder)
            except Cancelled:
                pass

    for line in lines:
        message = json.loads(line)
        if "call" in message:
            if not idle.acquire(blocking=False) and len(threads) < MOST_THREADS:
                thread = threading.Thread(target=serve, daemon=True)
                threads.append(thread)
                thread.start()
                idle.acquire()
            work.put(message)
        elif "answer" in message:
            answers = _asked.get(message["answer"])
            if answers is not None:
                answers.put(message)
        elif "cancel" in message:
            thread = _running.get(message["cancel"])
            if thread is not None:
                ctypes.pythonapi.PyThreadState_SetAsyncExc(
                    ctypes.c_ulong(thread), ctypes.py_object(Cancelled)
                )
    os._exit(0)


main()
