//! Fixtures of the plugin benchmark: one plugin of each kind, and many that are called once.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use serde_json::{Value, json};

/// Python code of all plugins: runs an empty loop and reports its duration.
const WORK_CODE: &str = "\
import os, time

def work(loops=0):
    began = time.perf_counter()
    total = 0
    for number in range(loops):
        total += number * number % 7
    return {\"total\": total, \"version\": VERSION, \"took\": time.perf_counter() - began}

def die():
    os._exit(0)
";

/// Python code that serves the work over the line protocol of plugins.
const LINES_CODE: &str = "\
import json, sys

def say(line):
    print(json.dumps(line), flush=True)

sys.stdin.readline()
say({\"ready\": 1})
for line in sys.stdin:
    message = json.loads(line)
    if \"call\" in message:
        say({\"call\": message[\"call\"], \"result\": work(**message[\"arguments\"])})
";

/// Python code that serves the work as an MCP server.
const SERVER_CODE: &str = "\
import json, sys

TOOL = {\"name\": \"work\", \"inputSchema\": {\"type\": \"object\"}}

def answer(method, params):
    if method == \"initialize\":
        return {\"protocolVersion\": params[\"protocolVersion\"], \"capabilities\": {\"tools\": {}},
                \"serverInfo\": {\"name\": \"bench\", \"version\": \"1\"}}
    if method == \"tools/list\":
        return {\"tools\": [TOOL]}
    if method == \"tools/call\":
        return {\"content\": [], \"structuredContent\": work(**params.get(\"arguments\", {}))}
    return {}

for line in sys.stdin:
    message = json.loads(line)
    if \"id\" in message and \"method\" in message:
        result = answer(message[\"method\"], message.get(\"params\", {}))
        print(json.dumps({\"jsonrpc\": \"2.0\", \"id\": message[\"id\"], \"result\": result}), flush=True)
";

fn plugin_manifest(name: &str, kind: &str) -> Value {
    let loops = json!({"loops": {"type": "integer"}});
    let tool = |name: &str, parameters: &Value| {
        json!({"name": name, "description": "d", "module": "tools", "function": name,
            "parameters": parameters, "side_effects": ["read_only"]})
    };
    let mut tools = vec![tool("work", &loops)];
    if kind == "python" {
        tools.push(tool("die", &json!({})));
    }
    let mut all = json!({"schema_version": "1.0", "name": name, "version": "1.0.0",
        "description": "measured", "kind": kind, "tools": tools});
    if let (true, Some(all)) = (kind != "python", all.as_object_mut()) {
        all.insert("command".to_owned(), json!(["./main.py"]));
    }
    all
}

/// Writes the code of a Python plugin that reports its version.
pub(super) fn write_code(folder: &Path, version: usize) -> io::Result<()> {
    fs::write(folder.join("tools.py"), format!("VERSION = {version}\n{WORK_CODE}"))
}

fn write_plugin(plugins: &Path, name: &str, kind: &str) -> io::Result<()> {
    let folder = plugins.join(name);
    fs::create_dir_all(&folder)?;
    fs::write(folder.join("manifest.json"), plugin_manifest(name, kind).to_string())?;
    let rest = match kind {
        "command" => LINES_CODE,
        "mcp" => SERVER_CODE,
        _ => return write_code(&folder, 0),
    };
    let main = folder.join("main.py");
    fs::write(&main, format!("#!/usr/bin/env python3\nVERSION = 0\n{WORK_CODE}\n{rest}"))?;
    fs::set_permissions(main, fs::Permissions::from_mode(0o755))
}

/// Writes the plugins `python`, `lines` and `server`, and `count` plugins that are called once.
pub(super) fn write_plugins(plugins: &Path, count: usize) -> io::Result<()> {
    for (name, kind) in [("python", "python"), ("lines", "command"), ("server", "mcp")] {
        write_plugin(plugins, name, kind)?;
    }
    (0..count).try_for_each(|number| write_plugin(plugins, &format!("first_{number}"), "python"))
}
