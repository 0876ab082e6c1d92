"""Programs as functions: one JSON object on standard input, one on standard output (research registry)."""
import json
import os
import subprocess

import toolkeep

LIMIT = 30.0


def _run(program, command, arguments):
    if program.startswith("./"):
        program = os.path.join(toolkeep.folder, program[2:])
    message = {**arguments, "command": command}
    pipe = subprocess.PIPE
    process = subprocess.Popen([program], stdin=pipe, stdout=pipe, stderr=pipe)
    try:
        out, err = _talk(process, json.dumps(message).encode())
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
    if not out.strip():
        last = " ".join(err.decode("utf-8", "replace").split())[-300:]
        raise RuntimeError(f"exit status {process.returncode}" + (f": {last}" if last else ""))
    reply = json.loads(out)
    if not isinstance(reply, dict) or reply.get("status") != "success":
        told = reply.get("error") if isinstance(reply, dict) else None
        raise RuntimeError(str(told or "the program answers no success"))
    result = reply.get("result")
    if isinstance(result, dict) and reply.get("stats") is not None:
        result.setdefault("stats", reply["stats"])
    return result


def _talk(process, text):
    # Short waits: a call that is given up is heard between them.
    waited = 0.0
    while True:
        try:
            return process.communicate(text, timeout=0.1)
        except subprocess.TimeoutExpired:
            text, waited = None, waited + 0.1
            if waited > LIMIT:
                raise TimeoutError(f"no answer within {LIMIT:.0f} s") from None
