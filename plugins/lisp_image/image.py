"""A running SBCL, and the tools of a Lisp agent (safety-level library) on it.

The image is a child of this process, in the same sandbox. It is started by the first call that needs it. An
evaluation that does not end is interrupted; an image that does not hear that is ended, and the next call
gets another. History and the last error are kept here: they outlive the image.
"""
import collections
import datetime
import difflib
import os
import re
import select
import shutil
import signal
import subprocess
import threading
import time

import toolkeep

CUT = 5000
MOST_HISTORY = 100
SHOWN = 2000
MOST_FILE = 4_000_000

_turn = threading.Lock()
_history = collections.deque(maxlen=MOST_HISTORY)
_shadow = {}
_state = {"image": None, "error": None, "note": ""}


class Failed(Exception):
    """In words, for the model."""


def _cut(text, limit=SHOWN):
    return text if len(text) <= limit else text[: limit - 20] + "... [truncated]"


def _now():
    return datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


class Image:
    def __init__(self):
        home = toolkeep.settings.get("sbcl_home") or ""
        sbcl = os.path.join(home, "bin", "sbcl") if home else shutil.which("sbcl")
        if not sbcl or not os.path.exists(sbcl):
            raise Failed("SBCL is not installed where this plugin runs: install Debian's sbcl, or set `sbcl_home`")
        command = [sbcl]
        core = os.path.join(home, "lib", "sbcl", "sbcl.core") if home else None
        environment = dict(os.environ)
        if core:
            command += ["--core", core]
            environment["SBCL_HOME"] = os.path.dirname(core)
        size = toolkeep.settings.get("heap_mb", 512)
        command += ["--dynamic-space-size", f"{size}MB", "--noinform", "--disable-ldb", "--no-sysinit", "--no-userinit", "--disable-debugger"]
        command += ["--load", os.path.join(toolkeep.folder, "image.lisp")]
        self.child = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            env=environment, cwd=toolkeep.write_folder or "/tmp",
        )
        self.buffer = b""

    def alive(self):
        return self.child.poll() is None

    def _more(self, until):
        left = until - time.monotonic()
        ready = left > 0 and select.select([self.child.stdout], [], [], left)[0]
        if not ready:
            raise TimeoutError
        part = os.read(self.child.stdout.fileno(), 1 << 16)
        if not part:
            raise EOFError
        self.buffer += part
        if len(self.buffer) > 32_000_000:
            raise EOFError

    def _line(self, until):
        while b"\n" not in self.buffer:
            self._more(until)
        line, self.buffer = self.buffer.split(b"\n", 1)
        return int(line)

    def _text(self, count, until):
        while True:
            text = self.buffer.decode("utf-8", "ignore")
            if len(text) >= count:
                taken = text[:count]
                self.buffer = self.buffer[len(taken.encode("utf-8")):]
                return taken
            self._more(until)

    def read(self, seconds):
        until = time.monotonic() + seconds
        return [self._text(self._line(until), until) for _ in range(self._line(until))]

    def ask(self, name, arguments, seconds):
        words = " ".join(_written(argument) for argument in arguments)
        self.child.stdin.write(f"(:{name} {words})\n".encode("utf-8"))
        self.child.stdin.flush()
        try:
            return self.read(seconds)
        except TimeoutError:
            self.child.send_signal(signal.SIGINT)
            return self.read(2)

    def end(self):
        self.child.kill()
        self.child.wait()


def _written(value):
    if isinstance(value, bool):
        return "t" if value else "nil"
    return '"' + str(value).replace("\\", "\\\\").replace('"', '\\"') + '"'


def _image():
    image = _state["image"]
    if image is None or not image.alive():
        lost = image is not None
        image = _state["image"] = Image()
        image.ask("ping", [], 30)
        for name, text in _shadow.items():
            image.ask("set-buffer", [name, text], 10)
        if lost:
            _state["note"] = "The Lisp image had ended and was started again: what was defined in it is gone, the history is kept.\n\n"
    return image


def _asked(name, *arguments, seconds=None):
    """The texts of the answer; what the image says in words is raised."""
    seconds = seconds or toolkeep.settings.get("eval_seconds", 10)
    with _turn:
        try:
            answer = _image().ask(name, arguments, seconds)
        except TimeoutError:
            return _lost(f"did not answer within {seconds} s, nor to an interrupt, and was ended")
        except (EOFError, OSError, ValueError) as error:
            return _lost(f"ended during the call ({_how(error)})")
    return answer


def _how(error):
    """How the image ended, or what it said that is no answer."""
    try:
        code = _state["image"].child.wait(timeout=1)
    except (AttributeError, subprocess.TimeoutExpired):
        return f"{type(error).__name__}: {error}"
    return f"signal {-code}" if code < 0 else f"exit status {code}"


def _lost(how):
    if _state["image"]:
        _state["image"].end()
    return ["lost", f"The Lisp image {how}; the next call gets a new one. The history is kept."]


def _noted(text):
    """The answer, behind what happened to the image since the last one."""
    note, _state["note"] = _state["note"], ""
    return note + text


def _plain(name, *arguments):
    kind, *texts = _asked(name, *arguments)
    if kind == "error":
        return f"Error: {texts[1]}"
    if kind == "cut":
        return "It took too long and was cut off."
    return _noted(texts[0])


def describe_symbol(symbol, package=""):
    return _cut(_plain("describe", symbol, package), CUT)


def apropos_search(pattern, package=""):
    return _cut(_plain("apropos", pattern, package), CUT)


def function_arglist(function, package=""):
    return _plain("arglist", function, package)


def who_calls(function, package=""):
    return _cut(_plain("calls", function, package), CUT)


def who_references(variable, package=""):
    return _cut(_plain("references", variable, package), CUT)


def list_package_symbols(package, include_internal=False):
    return _cut(_plain("symbols", package, include_internal), CUT)


def class_slots(**arguments):
    return _cut(_plain("slots", arguments["class"], arguments.get("package", "")), CUT)


def class_hierarchy(**arguments):
    return _cut(_plain("hierarchy", arguments["class"], arguments.get("package", "")), CUT)


def macroexpand_form(form, full=False, package=""):
    return _cut(_plain("macroexpand", form, full, package), CUT)


def _wrong(kind, texts, form):
    """Keeps what went wrong; answers it in a line."""
    if kind == "error":
        name, condition, backtrace = texts
    elif kind == "cut":
        name, condition, backtrace = "TIMEOUT", "the evaluation did not end and was cut off; the image goes on", ""
    else:
        name, condition, backtrace = "IMAGE", texts[0], ""
    _state["error"] = {"timestamp": _now(), "type": name, "condition": condition, "form": form, "backtrace": backtrace}
    return f"Error: {condition}\nUse get_last_error for the backtrace."


def eval_form(form, package=""):
    kind, *texts = _asked("eval", form, package)
    if kind == "told":
        return texts[0]
    if kind != "ok":
        result = _wrong(kind, texts, form)
        _history.append({"form": form, "result": result, "timestamp": _now()})
        return result
    values, said, home = texts
    _history.append({"form": form, "result": values, "timestamp": _now()})
    output = f"\nOutput:\n{_cut(said)}" if said else ""
    return _noted(f"Package: {home}\nForm: {_cut(form)}\nResult: {_cut(values, CUT)}{output}")


def compile_form(form, package=""):
    kind, *texts = _asked("compile", form, package)
    if kind in ("told", "ok"):
        return _noted(_cut(texts[0], CUT))
    return "Compilation failed\n" + _wrong(kind, texts, form)


def get_last_error():
    error = _state["error"]
    if error is None:
        return "No recent errors recorded."
    return _cut(
        f"Time: {error['timestamp']}\nType: {error['type']}\nCondition: {error['condition']}\n"
        f"Form: {error['form']}\nBacktrace:\n{error['backtrace']}", CUT,
    )


def get_repl_history(limit=10):
    if not _history:
        return "No REPL history available."
    last = list(_history)[-max(1, min(limit, 50)):]
    return "\n".join(f"{i + 1}. {_cut(it['form'], 500)}\n   => {_cut(it['result'], 500)}" for i, it in enumerate(last))


def _place(path):
    return path if os.path.isabs(path) else os.path.join(toolkeep.write_folder or "/tmp", path)


def _hold(name, text):
    _shadow[name] = text
    _asked("set-buffer", name, text)


def read_file(path):
    try:
        with open(_place(path), encoding="utf-8", errors="replace") as file:
            text = file.read(MOST_FILE)
    except OSError as error:
        return f"Error reading {path}: {error.strerror}"
    _hold(os.path.basename(path), text)
    return _cut(text, CUT)


def _buffer(name):
    if not name:
        names = _plain("buffers").split("\n")
        name = names[0]
    if not name:
        raise Failed("There are no buffers: read_file makes one")
    kind, *texts = _asked("buffer", name)
    if kind != "ok":
        raise Failed(texts[0])
    return name, texts[0]


def read_buffer(buffer="", start=0, end=None):
    try:
        _, text = _buffer(buffer)
    except Failed as error:
        return str(error)
    return _cut(text[max(start, 0):end], CUT)


def search_in_buffer(pattern, buffer="", regex=False, all_matches=True):
    try:
        name, text = _buffer(buffer)
        found = list(re.finditer(pattern if regex else re.escape(pattern), text))[:500]
    except Failed as error:
        return str(error)
    except re.error as error:
        return f"Error: the pattern is no regular expression: {error}"
    if not found:
        return f"No matches for \"{pattern}\" in {name}"
    found = found if all_matches else found[:1]
    lines = [f"line {text.count(chr(10), 0, it.start()) + 1}, position {it.start()}: {_cut(it.group(0), 200)}" for it in found]
    return _cut(f"Found {len(found)} match{'' if len(found) == 1 else 'es'} in {name}:\n" + "\n".join(lines), CUT)


def _write(place, text):
    beside = place + ".part"
    with open(beside, "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(beside, place)


def write_file(path, content):
    try:
        _write(_place(path), content)
    except OSError as error:
        return f"Error writing {path}: {error.strerror}"
    _hold(os.path.basename(path), content)
    return f"Wrote {len(content.encode('utf-8'))} bytes to {path}"


def propose_file_edit(path, original, modified, description):
    """By now a person has accepted the call, which shows both texts. What the file holds must be `original`."""
    try:
        with open(_place(path), encoding="utf-8") as file:
            now = file.read(MOST_FILE)
    except OSError as error:
        return f"Error reading {path}: {error.strerror}"
    if now != original and original not in now:
        return f"The edit was not made: {path} no longer holds the original text. Nothing has changed; read it again."
    text = modified if now == original else now.replace(original, modified, 1)
    diff = "".join(difflib.unified_diff(now.splitlines(True), text.splitlines(True), f"a/{path}", f"b/{path}"))
    if not diff:
        return "The edit changes nothing."
    try:
        _write(_place(path), text)
    except OSError as error:
        return f"Error writing {path}: {error.strerror}"
    _hold(os.path.basename(path), text)
    return _cut(f"Edit accepted: {description}\nThe file was changed and saved.\n{diff}", CUT)
