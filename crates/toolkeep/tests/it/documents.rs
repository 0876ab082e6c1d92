//! Tests of sentences in documents that reviewers found wrong or missing.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::command_runner::CommandHome;

/// Required statements of a document, and outdated ones that it must not have.
struct Row {
    file: &'static str,
    says: &'static [&'static str],
    lacks: &'static [&'static str],
}

const ROWS: &[Row] = &[
    // Whoever follows these guides has tools of the same names.
    Row {
        file: "docs/guide/migrate-modules.md",
        says: &[
            "policy: { deny: [\"source:builtin\"] }",
            "`POST /refresh-tools` and `make refresh-tools` need owner.key, or a key created with `--right sources:refresh`",
        ],
        lacks: &["a key more"],
    },
    Row {
        file: "docs/guide/migrate-safety-levels.md",
        says: &["deny: [\"source:builtin\"]"],
        lacks: &[],
    },
    Row {
        file: "docs/guide/migrate-research-registry.md",
        says: &["policy: { deny: [\"source:builtin\"] }"],
        lacks: &[],
    },
    Row {
        file: "docs/reference/compatibility/cluster-tools.md",
        says: &["Stricter: 3.10 or higher"],
        lacks: &[],
    },
    Row { file: "python/README.md", says: &["Python 3.10 or higher"], lacks: &["3.8"] },
    Row {
        file: "docs/guide/migrate-cluster-tools.md",
        says: &["Python 3.10 or higher"],
        lacks: &[],
    },
    Row { file: "python/pyproject.toml", says: &["requires-python = \">=3.10\""], lacks: &[] },
    Row {
        file: "docs/reference/compatibility/access-and-approvals.md",
        says: &[
            "`policy.roles.NAME` with `web_access`, `allowed_categories`, `allowed_tools`, `forbidden_tools`",
        ],
        lacks: &["policy.roles.NAME.permissions"],
    },
    Row { file: ".gitignore", says: &["\npython/build/\n"], lacks: &[] },
    Row {
        file: "docs/guide/plugins.md",
        says: &["a call a moment later has the change"],
        lacks: &["the next call has the change"],
    },
];

/// Problems of a document.
fn wrong(row: &Row, text: &str) -> Vec<String> {
    let says = row.says.iter().filter(|words| !text.contains(*words));
    let lacks = row.lacks.iter().filter(|words| text.contains(*words));
    let says = says.map(|words| format!("{} does not say {words:?}", row.file));
    says.chain(lacks.map(|words| format!("{} says {words:?}", row.file))).collect()
}

#[test]
fn documents_say_what_reviewers_missed() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let read = |row: &Row| fs::read_to_string(root.join(row.file)).unwrap();
    let found: Vec<_> = ROWS.iter().flat_map(|row| wrong(row, &read(row))).collect();
    assert!(found.is_empty(), "{}", found.join("\n"));
    // Control: an empty document lacks every statement.
    let all: usize = ROWS.iter().map(|row| wrong(row, "").len()).sum();
    assert_eq!(all, ROWS.iter().map(|row| row.says.len()).sum::<usize>());
}

/// Interfaces that only Linux has, as code names them.
const LINUX_INTERFACES: &[&str] = &[
    "landlock::",
    "seccompiler::",
    "libc::prctl",
    "MADV_DONTNEED",
    "openat2",
    "renameat_with",
    "fallocate",
    "set_tcp_user_timeout",
    "fcntl_setpipe_size",
    "pidfd",
    "memfd",
    "\"/proc/",
    "std::os::linux",
];

/// Code of a file without its comments and tests.
fn product_code(text: &str) -> String {
    let own = text.split("#[cfg(test)]").next().unwrap_or_default();
    own.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n")
}

fn uses_linux(folder: &Path) -> bool {
    fs::read_dir(folder).into_iter().flatten().any(|entry| {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() {
            // Programs of tests are in `bin`.
            return name != "tests" && name != "bin" && uses_linux(&path);
        }
        let is_product = path.extension().is_some_and(|it| it == "rs") && name != "tests.rs";
        let code = if is_product {
            product_code(&fs::read_to_string(&path).unwrap())
        } else {
            String::new()
        };
        LINUX_INTERFACES.iter().any(|interface| code.contains(interface))
    })
}

/// The crates in the table of Linux-only code, whose rows begin with the crate.
fn crates_of_the_table(text: &str) -> BTreeSet<String> {
    let (_, section) = text.split_once("## Linux-only code").unwrap();
    let section = section.split("\n## ").next().unwrap();
    let rows = section.lines().filter_map(|line| line.strip_prefix("| `"));
    rows.map(|row| row.split('`').next().unwrap().to_owned()).collect()
}

#[test]
fn the_crates_with_code_for_linux_alone_are_named() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let text = fs::read_to_string(root.join("docs/design/distribution.md")).unwrap();
    let mut found = BTreeSet::new();
    for entry in fs::read_dir(root.join("crates")).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        // Neither is part of the program.
        if !["bench", "testkit"].contains(&name.as_str()) && uses_linux(&entry.path().join("src")) {
            found.insert(name);
        }
    }
    assert!(found.contains("sandbox") && found.contains("rooted-fs"), "{found:?}");
    assert_eq!(crates_of_the_table(&text), found);
}

/// The guides explain how to disable built-in tools before they start anything.
#[test]
fn guides_for_those_who_have_tools_of_their_own_begin_with_how_to_leave_the_built_in_ones_out() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for guide in ["migrate-modules.md", "migrate-tool-files.md"] {
        let text = fs::read_to_string(root.join("docs/guide").join(guide)).unwrap();
        let line = text.find("policy: { deny: [\"source:builtin\"] }");
        let first = text.find("```console").unwrap_or(text.len());
        assert!(line.is_some_and(|line| line < first), "{guide}");
    }
}

/// The words of the role itself are taken, as access-and-approvals.md names them, and `permissions` is not among them.
#[test]
fn a_role_has_the_four_words_that_specs_names() {
    let home = CommandHome::new();
    let role = "web_access: false, allowed_categories: [math], allowed_tools: [echo], forbidden_tools: [run_shell]";
    let file = |role: &str| format!("version: 1\npolicy: {{ roles: {{ r: {{ {role} }} }} }}\n");
    home.write("t.yaml", &file(role));
    let ran = home.run(&["config", "check", "t.yaml"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    home.write("t.yaml", &file("permissions: { web_access: false }"));
    let ran = home.run(&["config", "check", "t.yaml"]);
    assert!(ran.code == 1 && ran.err.contains("unknown key `permissions`"), "{}", ran.err);
}

/// Models copy the example of a description literally.
#[test]
fn the_example_of_run_program_runs_as_it_stands() {
    let home = CommandHome::new();
    let tool = home.run(&["tool", "show", "run_program", "-o", "json"]).json();
    let described = find(&tool, "code").unwrap()["description"].as_str().unwrap().to_owned();
    let lines: Vec<_> = described.split('`').skip(1).step_by(2).collect();
    assert!(lines.len() > 1 && lines[0].starts_with("r = csv_to_json("), "{described}");
    home.write("example.py", &lines.join("\n"));
    let run = ["program", "run", "example.py", "--input", "text=a,b\n1,2\n3,4\n", "-o", "json"];
    let ran = home.run(&run);
    let came = ran.json();
    assert_eq!((&came["status"], &came["result"]), (&"succeeded".into(), &2.into()), "{came}");
    // The control: the parameter that the description named before is none.
    home.write("example.py", "csv_to_json(csv=text)");
    assert_eq!(home.run(&run).json()["status"], "failed");
}

/// Finds the schema of a parameter at any depth.
fn find<'a>(value: &'a Value, name: &str) -> Option<&'a Value> {
    let own = value.get("properties").and_then(|all| all.get(name));
    own.or_else(|| match value {
        Value::Object(all) => all.values().find_map(|value| find(value, name)),
        _ => None,
    })
}
