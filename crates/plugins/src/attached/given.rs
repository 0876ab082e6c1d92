//! What a tool file says, as the manifest and the module that it stands for.

use std::fmt::Write as _;

use bytes::Bytes;
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};
use tool::{Json, Problem, Scope};

use crate::Grant;
use crate::folder::{Content, MANIFEST};
use crate::manifest::{MOST_TOOLS, is_identifier, shown};

/// The module in which programs are functions.
const PROGRAMS: &str = "toolkeep_programs";
/// How a program is called: spec 3's protocol.
const CALLING: &str = include_str!("programs.py");

/// How one tool is called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Call {
    /// A function of a module.
    Function {
        /// Dotted; what stands before the folder in it is left out.
        module: String,
        /// Its name.
        function: String,
    },
    /// A program of the folder, or of the machine as a cage sees it.
    Program {
        /// Its name or path.
        binary: String,
        /// The word it is given.
        command: String,
    },
}

/// One tool's code.
#[derive(Debug, Clone, PartialEq)]
pub struct Code {
    /// The tool's name in its file.
    pub tool: String,
    /// How it is called.
    pub call: Call,
    /// The schema of its arguments.
    pub input: Json,
    /// What it reaches for.
    pub scopes: Vec<Scope>,
    /// Whether it writes files.
    pub writes: bool,
}

/// A tool file's word in the place of a manifest.
#[derive(Debug, PartialEq)]
pub(crate) struct Given {
    plugin: String,
    needs: Map<String, Value>,
    tools: Vec<Code>,
}

/// The name of a tool within the process: of what it is, so that it stays while others come and go.
pub(super) fn id(code: &Code) -> String {
    let said = format!("{}\n{:?}\n{}", code.tool, code.call, code.input.as_str());
    let mut hex = String::from("t");
    for byte in Sha256::digest(said.as_bytes()).iter().take(12) {
        // A text takes whatever is written.
        let _infallible = write!(hex, "{byte:02x}");
    }
    hex
}

impl Given {
    /// Takes what can be run; of the others it is told why not.
    pub(super) fn new(source: &str, code: &[Code], grant: &Grant) -> (Self, Vec<Option<Problem>>) {
        let mut given = Self { plugin: plugin(source), needs: Map::new(), tools: Vec::new() };
        let mut told = Vec::new();
        for one in code {
            let wrong = if given.tools.len() >= MOST_TOOLS {
                let message = format!("more than {MOST_TOOLS} tools of one file have code");
                Some(Problem::new(source, message).fix("split it into several tool files"))
            } else {
                unfit(source, one, grant)
            };
            if wrong.is_none() {
                given.ask(one);
                given.tools.push(one.clone());
            }
            told.push(wrong);
        }
        (given, told)
    }

    fn ask(&mut self, one: &Code) {
        if one.scopes.contains(&Scope::Network) {
            self.needs.insert("network".to_owned(), json!(["*"]));
        }
        if one.scopes.contains(&Scope::Filesystem) {
            let writes = one.writes || self.needs.get("files") == Some(&json!("write"));
            let word = if writes { "write" } else { "read" };
            self.needs.insert("files".to_owned(), json!(word));
        }
    }

    /// Makes of what is in the folder what is run: its Python files, the programs that are named, and what
    /// stands for a manifest.
    pub(crate) fn lay(&self, content: &mut Content) {
        let named = |path: &str| {
            self.tools.iter().any(|code| match &code.call {
                Call::Program { binary, .. } => inside(binary) == path,
                Call::Function { .. } => false,
            })
        };
        let is_python =
            |path: &str| std::path::Path::new(path).extension().is_some_and(|it| it == "py");
        content.files.retain(|path, _| is_python(path) || named(path));
        content.left_out.clear();
        let mut programs = CALLING.to_owned();
        let tools: Vec<Value> =
            self.tools.iter().map(|code| entry(code, content, &mut programs)).collect();
        let manifest = json!({
            "schema_version": "1.0", "name": self.plugin, "version": "1",
            "description": "The code of a tool file.", "needs": self.needs, "tools": tools,
        });
        content.files.insert(format!("{PROGRAMS}.py"), Bytes::from(programs));
        content.files.insert(MANIFEST.to_owned(), Bytes::from(manifest.to_string()));
        content.hash();
    }
}

/// A name that the file's source may have as a plugin.
fn plugin(source: &str) -> String {
    let fits = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '_' };
    let name: String = source.chars().map(fits).take(40).collect();
    format!("tool_file_{name}")
}

fn inside(binary: &str) -> &str {
    binary.strip_prefix("./").unwrap_or(binary)
}

fn unfit(source: &str, code: &Code, grant: &Grant) -> Option<Problem> {
    let problem = |message: String| Some(Problem::new(source, message));
    let lacks = |what: &str, write: &str| {
        let fix = format!("write it under `plugins: {{ grants: {{ {source}: {{ {write} }} }} }}`");
        Some(Problem::new(source, format!("it needs {what}, and none is granted")).fix(fix))
    };
    match &code.call {
        Call::Function { module, function } => {
            if !module.split('.').all(is_identifier) {
                return problem(format!("'module' `{}` is no name of a module", shown(module)));
            }
            if !is_identifier(function) {
                return problem(format!(
                    "'function' `{}` is no name of a function",
                    shown(function)
                ));
            }
        }
        Call::Program { binary, .. } => {
            let odd = inside(binary).split('/').any(|part| matches!(part, "" | "." | ".."));
            if odd || binary.len() > 1_000 {
                let told =
                    format!("'binary' `{}` is no program below the file's folder", shown(binary));
                return problem(told);
            }
        }
    }
    if code.scopes.contains(&Scope::Network) && grant.network.is_empty() {
        return lacks("the network", "network: [HOST]");
    }
    if code.scopes.contains(&Scope::Filesystem) {
        if code.writes && grant.write.is_none() {
            return lacks("a folder to write", "write: FOLDER");
        }
        if grant.read.is_empty() && grant.write.is_none() {
            return lacks("folders to read", "read: [FOLDER]");
        }
    }
    None
}

fn entry(code: &Code, content: &Content, programs: &mut String) -> Value {
    let id = id(code);
    let input = code.input.value();
    let (module, function, needed) = match &code.call {
        Call::Function { module, function } => (module.clone(), function.clone(), Vec::new()),
        Call::Program { binary, command } => {
            let path = inside(binary);
            let here = content.files.contains_key(path);
            let program = if here { format!("./{path}") } else { binary.clone() };
            // A text of JSON is one of Python.
            let [program, command] = [json!(program), json!(command)];
            let _infallible = write!(
                programs,
                "\n\ndef {id}(**arguments):\n    return _run({program}, {command}, arguments)\n"
            );
            let needed = if here { Vec::new() } else { vec![format!("command:{binary}")] };
            (PROGRAMS.to_owned(), id.clone(), needed)
        }
    };
    json!({
        "name": id, "description": code.tool, "module": module, "function": function,
        "parameters": input, "dependencies": needed,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(tool: &str, binary: &str) -> Code {
        let call = Call::Program { binary: binary.to_owned(), command: "matrix_op".to_owned() };
        let input = Json::of(&json!({"type": "object"}));
        Code { tool: tool.to_owned(), call, input, scopes: Vec::new(), writes: false }
    }

    #[test]
    fn the_copy_has_the_code_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        for file in ["tools.yaml", "secret.key", "web.py", "math-tools", "manifest.json"] {
            std::fs::write(folder.path().join(file), file).unwrap();
        }
        let mut content = Content::read(folder.path()).unwrap();
        let (given, told) =
            Given::new("my-file", &[program("matrix_svd", "math-tools")], &Grant::default());
        assert_eq!(told, [None]);
        given.lay(&mut content);
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
        let manifest = crate::Manifest::read(&content.files["manifest.json"], "m").unwrap();
        assert_eq!(manifest.name, "tool_file_my_file");
    }

    #[test]
    fn what_leads_out_or_is_not_granted_is_told() {
        let told = |code: Code| {
            let (_, told) = Given::new("f", &[code], &Grant::default());
            told.into_iter().next().flatten().map(|problem| problem.message)
        };
        for bad in ["../sh", "/bin/sh", "a/../../sh", ""] {
            let message = told(program("t", bad)).unwrap();
            assert!(message.contains("is no program below the file's folder"), "{message}");
        }
        let net = Code { scopes: vec![Scope::Network], ..program("t", "x") };
        assert_eq!(told(net).unwrap(), "it needs the network, and none is granted");
        let call = Call::Function { module: "os;x".to_owned(), function: "f".to_owned() };
        let message = told(Code { call, ..program("t", "x") }).unwrap();
        assert_eq!(message, "'module' `os;x` is no name of a module");
    }
}
