"""Tests and faults. What is run is the project's own code: in this sandbox, and nowhere else."""
import ast
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys

import toolkeep

MOST_OUTPUT = 50_000
MOST_ISSUES = 50
LONGEST = 280


def _place(path):
    base = toolkeep.write_folder or "/tmp"
    return path if os.path.isabs(path) else os.path.normpath(os.path.join(base, path))


def _run(command, folder):
    done = subprocess.run(
        command, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, timeout=LONGEST, check=False,
    )
    output = done.stdout.decode("utf-8", "replace")
    return done.returncode, output[-MOST_OUTPUT:], len(output) > MOST_OUTPUT


def _count(pattern, output):
    found = re.findall(pattern, output)
    return int(found[-1]) if found else 0


def run_tests(path=".", pattern=None, verbose=False):
    place = _place(path)
    if not os.path.exists(place):
        return {"success": False, "error": f"no such folder or file: {path}", "test_path": place}
    folder = place if os.path.isdir(place) else os.path.dirname(place)
    pytest = importlib.util.find_spec("pytest") is not None
    if pytest:
        command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-v" if verbose else "-q", place]
        command += ["-k", pattern] if pattern else []
    else:
        command = [sys.executable, "-m", "unittest"]
        if os.path.isdir(place):
            command += ["discover", "-s", place, "-t", place]
        else:
            command += ["discover", "-s", folder, "-t", folder, "-p", os.path.basename(place)]
        command += ["-k", pattern] if pattern else []
        command += ["-v"] if verbose else []
    try:
        code, output, truncated = _run(command, folder)
    except subprocess.TimeoutExpired:
        return {"success": False, "error": f"the tests took longer than {LONGEST} s", "test_path": place}
    if pytest:
        passed, failed, errors = (_count(rf"(\d+) {word}", output) for word in ("passed", "failed", "errors?"))
    else:
        failed, errors = _count(r"failures=(\d+)", output), _count(r"errors=(\d+)", output)
        passed = max(_count(r"Ran (\d+) tests?", output) - failed - errors, 0)
    return {
        "success": code == 0,
        "output": output,
        "test_path": place,
        "exit_code": code,
        "passed": passed,
        "failed": failed,
        "errors": errors,
        "truncated": truncated,
        **({} if code == 0 else {"error": f"the tests ended with {code}"}),
    }


def _syntax(place):
    """Faults that need no program: syntax, and imports that nothing uses."""
    with open(place, encoding="utf-8", errors="replace") as file:
        text = file.read()
    try:
        tree = ast.parse(text, place)
    except SyntaxError as error:
        return [{"line": error.lineno, "column": error.offset, "code": "syntax", "message": error.msg}]
    names, used = {}, set()
    for node in ast.walk(tree):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            for alias in node.names:
                names[(alias.asname or alias.name).split(".")[0]] = node
        elif isinstance(node, ast.Name):
            used.add(node.id)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            used.add(node.value)
    return [
        {"line": node.lineno, "column": node.col_offset + 1, "code": "F401", "message": f"`{name}` imported but unused"}
        for name, node in names.items()
        if name not in used and name not in ("*", "annotations")
    ]


def lint_code(path, fix=False):
    place = _place(path)
    if not os.path.exists(place):
        return {"success": False, "error": f"no such file: {path}", "file_path": place}
    ruff = shutil.which("ruff")
    if not ruff:
        if fix or not os.path.isfile(place):
            return {"success": False, "error": "ruff is not installed here: one file can be looked at, and nothing mended", "file_path": place}
        issues = _syntax(place)
        output = "\n".join(f"{it['line']}:{it['column']} {it['code']} {it['message']}" for it in issues)
        code, truncated = int(bool(issues)), False
    else:
        command = [ruff, "check", "--no-cache", "--output-format", "json", *(["--fix"] if fix else []), place]
        try:
            code, output, truncated = _run(command, os.path.dirname(place))
            found = json.loads(output)
        except (subprocess.TimeoutExpired, ValueError) as error:
            return {"success": False, "error": f"ruff: {error}", "file_path": place}
        issues = [
            {"line": it["location"]["row"], "column": it["location"]["column"], "code": it["code"], "message": it["message"]}
            for it in found
        ]
    return {
        "success": True,
        "output": output,
        "file_path": place,
        "issue_count": len(issues),
        "issues": issues[:MOST_ISSUES],
        "exit_code": code,
        "truncated": truncated or len(issues) > MOST_ISSUES,
    }
