//! Synthetic manifest and Python module, generated from a tool file.

use std::fmt::Write as _;

use bytes::Bytes;
use data_encoding::HEXLOWER;
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};
use tool::{AccessScope, Json, Problem};

use crate::AccessGrant;
use crate::manifest::{MAX_TOOLS, escape_for_message, is_identifier};
use crate::plugin_folder::{FolderContent, MANIFEST_FILE};

/// Module whose functions run programs.
const PROGRAMS_MODULE: &str = "toolkeep_programs";
/// Python code that calls programs by the research registry's protocol.
const CALL_PROTOCOL_SOURCE: &str = include_str!("programs.py");

/// Entry point of a tool's code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EntryPoint {
    /// A function of a module.
    Function {
        /// Dotted module name; leading segments up to the folder name are ignored.
        module: String,
        /// Its name.
        function: String,
    },
    /// A program of the folder, or of the machine as a sandbox sees it.
    Program {
        /// Its name or path.
        binary: String,
        /// Command word that the program receives.
        command: String,
    },
}

/// The code of one tool.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolCode {
    /// The tool's name in its file.
    pub tool_name: String,
    /// Entry point of the tool.
    pub entry_point: EntryPoint,
    /// The schema of its arguments.
    pub input_schema: Json,
    /// Scopes that the code needs.
    pub scopes: Vec<AccessScope>,
    /// Whether the tool writes files.
    pub writes_files: bool,
}

/// Manifest that is generated from a tool file.
#[derive(Debug, PartialEq)]
pub(crate) struct SyntheticManifest {
    plugin_name: String,
    requested_access: Map<String, Value>,
    tools: Vec<ToolCode>,
}

/// Returns the ID of a tool within the process, which is derived from its definition and therefore
/// stable.
pub(super) fn tool_id(code: &ToolCode) -> String {
    let identity_text =
        format!("{}\n{:?}\n{}", code.tool_name, code.entry_point, code.input_schema.as_str());
    format!("t{:.24}", HEXLOWER.encode(&Sha256::digest(identity_text.as_bytes())))
}

impl SyntheticManifest {
    /// Creates the manifest of the runnable tools, and reports why others are not runnable.
    pub(super) fn new(
        source: &str,
        code: &[ToolCode],
        grant: &AccessGrant,
    ) -> (Self, Vec<Option<Problem>>) {
        let mut synthetic = Self {
            plugin_name: plugin_name(source),
            requested_access: Map::new(),
            tools: Vec::new(),
        };
        let mut told = Vec::new();
        for one in code {
            let problem = if synthetic.tools.len() >= MAX_TOOLS {
                let message = format!("more than {MAX_TOOLS} tools of one file have code");
                Some(Problem::new(source, message).with_help("split it into several tool files"))
            } else {
                check_code(source, one, grant)
            };
            if problem.is_none() {
                synthetic.request_access(one);
                synthetic.tools.push(one.clone());
            }
            told.push(problem);
        }
        (synthetic, told)
    }

    fn request_access(&mut self, one: &ToolCode) {
        if one.scopes.contains(&AccessScope::Network) {
            self.requested_access.insert("network".to_owned(), json!(["*"]));
        }
        if one.scopes.contains(&AccessScope::Filesystem) {
            let writes =
                one.writes_files || self.requested_access.get("files") == Some(&json!("write"));
            let word = if writes { "write" } else { "read" };
            self.requested_access.insert("files".to_owned(), json!(word));
        }
    }

    /// Reduces the folder content to what runs: its Python files, the named programs, and the
    /// generated manifest.
    pub(crate) fn apply_to(&self, content: &mut FolderContent) {
        let named = |path: &str| {
            self.tools.iter().any(|code| match &code.entry_point {
                EntryPoint::Program { binary, .. } => relative_path(binary) == path,
                EntryPoint::Function { .. } => false,
            })
        };
        let is_python =
            |path: &str| std::path::Path::new(path).extension().is_some_and(|it| it == "py");
        content.files.retain(|path, _| is_python(path) || named(path));
        content.skipped.clear();
        let mut programs = CALL_PROTOCOL_SOURCE.to_owned();
        let tools: Vec<Value> =
            self.tools.iter().map(|code| manifest_entry(code, content, &mut programs)).collect();
        let manifest = json!({
            "schema_version": "1.0", "name": self.plugin_name, "version": "1",
            "description": "The code of a tool file.", "needs": self.requested_access, "tools": tools,
        });
        content.files.insert(format!("{PROGRAMS_MODULE}.py"), Bytes::from(programs));
        content.files.insert(MANIFEST_FILE.to_owned(), Bytes::from(manifest.to_string()));
        content.rehash();
    }
}

/// A name that the file's source may have as a plugin.
fn plugin_name(source: &str) -> String {
    let fits = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '_' };
    let name: String = source.chars().map(fits).take(40).collect();
    format!("tool_file_{name}")
}

fn relative_path(binary: &str) -> &str {
    binary.strip_prefix("./").unwrap_or(binary)
}

fn check_code(source: &str, code: &ToolCode, grant: &AccessGrant) -> Option<Problem> {
    let problem = |message: String| Some(Problem::new(source, message));
    let lacks = |what: &str, write: &str| {
        let fix = format!("write it under `plugins: {{ grants: {{ {source}: {{ {write} }} }} }}`");
        Some(Problem::new(source, format!("it needs {what}, but none is granted")).with_help(fix))
    };
    match &code.entry_point {
        EntryPoint::Function { module, function } => {
            if !module.split('.').all(is_identifier) {
                return problem(format!(
                    "invalid module name `{}` in 'module'",
                    escape_for_message(module)
                ));
            }
            if !is_identifier(function) {
                return problem(format!(
                    "invalid function name `{}` in 'function'",
                    escape_for_message(function)
                ));
            }
        }
        EntryPoint::Program { binary, .. } => {
            let odd = relative_path(binary).split('/').any(|part| matches!(part, "" | "." | ".."));
            if odd || binary.len() > 1_000 {
                let told = format!(
                    "'binary' `{}` is not a program below the file's folder",
                    escape_for_message(binary)
                );
                return problem(told);
            }
        }
    }
    if code.scopes.contains(&AccessScope::Network) && grant.allowed_hosts.is_empty() {
        return lacks("the network", "network: [HOST]");
    }
    if code.scopes.contains(&AccessScope::Filesystem) {
        if code.writes_files && grant.writable_dir.is_none() {
            return lacks("a folder to write", "write: FOLDER");
        }
        if grant.readable_dirs.is_empty() && grant.writable_dir.is_none() {
            return lacks("folders to read", "read: [FOLDER]");
        }
    }
    None
}

fn manifest_entry(code: &ToolCode, content: &FolderContent, programs: &mut String) -> Value {
    let id = tool_id(code);
    let input = code.input_schema.to_value();
    let (module, function, dependencies) = match &code.entry_point {
        EntryPoint::Function { module, function } => (module.clone(), function.clone(), Vec::new()),
        EntryPoint::Program { binary, command } => {
            let path = relative_path(binary);
            let is_in_folder = content.files.contains_key(path);
            let program = if is_in_folder { format!("./{path}") } else { binary.clone() };
            // A text of JSON is one of Python.
            let [program, command] = [json!(program), json!(command)];
            let _infallible = write!(
                programs,
                "\n\ndef {id}(**arguments):\n    return _run({program}, {command}, arguments)\n"
            );
            let needed = if is_in_folder { Vec::new() } else { vec![format!("command:{binary}")] };
            (PROGRAMS_MODULE.to_owned(), id.clone(), needed)
        }
    };
    json!({
        "name": id, "description": code.tool_name, "module": module, "function": function,
        "parameters": input, "dependencies": dependencies,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(tool: &str, binary: &str) -> ToolCode {
        let call =
            EntryPoint::Program { binary: binary.to_owned(), command: "matrix_op".to_owned() };
        let input = Json::encode(&json!({"type": "object"}));
        ToolCode {
            tool_name: tool.to_owned(),
            entry_point: call,
            input_schema: input,
            scopes: Vec::new(),
            writes_files: false,
        }
    }

    #[test]
    fn the_copy_has_the_code_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        for file in ["tools.yaml", "secret.key", "web.py", "math-tools", "manifest.json"] {
            std::fs::write(folder.path().join(file), file).unwrap();
        }
        let mut content = FolderContent::read_folder(folder.path()).unwrap();
        let (given, told) = SyntheticManifest::new(
            "my-file",
            &[program("matrix_svd", "math-tools")],
            &AccessGrant::default(),
        );
        assert_eq!(told, [None]);
        given.apply_to(&mut content);
        let files: Vec<_> = content.files.keys().map(String::as_str).collect();
        assert_eq!(files, ["manifest.json", "math-tools", "toolkeep_programs.py", "web.py"]);
        let programs = std::str::from_utf8(&content.files["toolkeep_programs.py"]).unwrap();
        assert!(
            programs.ends_with(
                r#"return _run("./math-tools", "matrix_op", arguments)
"#
            ),
            "{programs}"
        );
        let manifest =
            crate::PluginManifest::parse_manifest(&content.files["manifest.json"], "m").unwrap();
        assert_eq!(manifest.name, "tool_file_my_file");
    }

    #[test]
    fn what_leads_out_or_is_not_granted_is_told() {
        let told = |code: ToolCode| {
            let (_, told) = SyntheticManifest::new("f", &[code], &AccessGrant::default());
            told.into_iter().next().flatten().map(|problem| problem.message)
        };
        for bad in ["../sh", "/bin/sh", "a/../../sh", ""] {
            let message = told(program("t", bad)).unwrap();
            assert!(message.contains("is not a program below the file's folder"), "{message}");
        }
        let net = ToolCode { scopes: vec![AccessScope::Network], ..program("t", "x") };
        assert_eq!(told(net).unwrap(), "it needs the network, but none is granted");
        let call = EntryPoint::Function { module: "os;x".to_owned(), function: "f".to_owned() };
        let message = told(ToolCode { entry_point: call, ..program("t", "x") }).unwrap();
        assert_eq!(message, "invalid module name `os;x` in 'module'");
    }
}
