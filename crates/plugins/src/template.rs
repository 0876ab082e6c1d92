//! Templates of new plugins: small and working, with examples that serve as tests.

use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use crate::manifest::is_plugin_name;
use crate::plugin_folder::MANIFEST_FILE;

/// Template kinds of a new plugin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PluginTemplate {
    /// A function of a Python module.
    Python,
    /// A program that speaks the lines of a plugin.
    Command,
    /// An MCP server.
    Mcp,
}

const MANIFEST_TEMPLATE: &str = r#"{
  "schema_version": "1.0",
  "name": "NAME",
  "version": "0.1.0",
  "description": "Says hello",
KIND  "settings_schema": {
    "greeting": { "type": "string", "default": "Hello", "description": "What it begins with" }
  },
  "tools": [
    {
      "name": "greet",
      "description": "Greet somebody by name",
MODULE      "category": "specialized",
      "parameters": {
        "name": { "type": "string", "required": true, "description": "Who is greeted" }
      },
      "side_effects": ["read_only"],
      "examples": [
        { "input": { "name": "Ann" }, "output": { "text": "Hello, Ann!" } },
        { "input": { "name": "" }, "error": "name is empty" }
      ]
    }
  ]
}
"#;

const PYTHON_SOURCE: &str = r#""""The tools of this plugin: the manifest names the functions."""


def greet(name, settings):
    """`settings` is not a parameter of the tool: it is what `plugin settings` sets."""
    if not name:
        raise ValueError("name is empty")
    return {"text": f"{settings['greeting']}, {name}!"}
"#;

const COMMAND_SOURCE: &str = r#"#!/usr/bin/env python3
"""A plugin is any program that reads and writes these lines; this one is in Python."""
import json
import sys


def say(line):
    print(json.dumps(line), flush=True)


hello = json.loads(sys.stdin.readline())
greeting = hello["settings"]["greeting"]
say({"ready": 1})
for line in sys.stdin:
    message = json.loads(line)
    if "call" not in message:
        continue
    name = message["arguments"]["name"]
    if name:
        say({"call": message["call"], "result": {"text": f"{greeting}, {name}!"}})
    else:
        say({"call": message["call"], "error": "name is empty"})
"#;

const MCP_SOURCE: &str = r#"#!/usr/bin/env python3
"""A plugin may be any MCP server over standard input and output; this one is in Python alone."""
import json
import os
import sys

settings = json.loads(os.environ["TOOLKEEP_SETTINGS"])

GREET = {
    "name": "greet",
    "description": "Greet somebody by name",
    "inputSchema": {
        "type": "object",
        "properties": {"name": {"type": "string", "description": "Who is greeted"}},
        "required": ["name"],
        "additionalProperties": False,
    },
}


def greet(name):
    if not name:
        return {"content": [{"type": "text", "text": "name is empty"}], "isError": True}
    said = {"text": f"{settings['greeting']}, {name}!"}
    return {"content": [{"type": "text", "text": json.dumps(said)}], "structuredContent": said}


def answer(method, params):
    if method == "initialize":
        return {
            "protocolVersion": params["protocolVersion"],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "NAME", "version": "0.1.0"},
        }
    if method == "tools/list":
        return {"tools": [GREET]}
    if method == "tools/call" and params["name"] == "greet":
        return greet(**params.get("arguments", {}))
    return {} if method == "ping" else None


for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message or "method" not in message:
        continue
    result = answer(message["method"], message.get("params", {}))
    said = {"jsonrpc": "2.0", "id": message["id"]}
    if result is None:
        said["error"] = {"code": -32601, "message": "there is no such method or tool"}
    else:
        said["result"] = result
    print(json.dumps(said), flush=True)
"#;

/// Creates a plugin `name` in a new folder of that name in `folder`, and returns the written files.
/// Blocks.
///
/// # Errors
/// [`io::ErrorKind::InvalidInput`] for an invalid name; other errors if the folder exists or cannot
/// be created.
pub fn create_plugin(
    folder: &Path,
    name: &str,
    template: PluginTemplate,
) -> io::Result<Vec<PathBuf>> {
    if !is_plugin_name(name) {
        let message = "a plugin's name must consist of lower-case letters, digits and `_`, \
            beginning with a letter";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
    }
    let started =
        |kind: &str| format!("  \"kind\": \"{kind}\",\n  \"command\": [\"./main.py\"],\n");
    let (kind, module, file, code) = match template {
        PluginTemplate::Python => (
            String::new(),
            "      \"module\": \"tools\",\n      \"function\": \"greet\",\n",
            "tools.py",
            PYTHON_SOURCE.to_owned(),
        ),
        PluginTemplate::Command => (started("command"), "", "main.py", COMMAND_SOURCE.to_owned()),
        PluginTemplate::Mcp => (started("mcp"), "", "main.py", MCP_SOURCE.replace("NAME", name)),
    };
    let manifest =
        MANIFEST_TEMPLATE.replace("NAME", name).replace("KIND", &kind).replace("MODULE", module);
    let home = folder.join(name);
    fs::create_dir_all(folder)?;
    fs::create_dir(&home)?;
    let mut files = Vec::new();
    for (file, text) in [(file, code.as_str()), (MANIFEST_FILE, manifest.as_str())] {
        let file_path = home.join(file);
        let mode = if file == MANIFEST_FILE { 0o644 } else { 0o755 };
        let mut open =
            fs::OpenOptions::new().write(true).create_new(true).mode(mode).open(&file_path)?;
        open.write_all(text.as_bytes())?;
        files.push(file_path);
    }
    Ok(files)
}
