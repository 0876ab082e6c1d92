//! Tests of the offered tools and of `doctor` with a full, a partial and no sandbox.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::command_runner::CommandHome;
use crate::refused_kernel::{TOOLKEEP, filter_program};
use crate::small_model::{Shape, write};

/// The tools that need a sandbox, in the order of their names.
const TOOLS: [&str; 8] = [
    "get_chainable_tools",
    "git_status",
    "program_status",
    "python_eval",
    "run_program",
    "run_shell",
    "sql_query",
    "symbolic_solve",
];

/// Output of the program under a kernel that refuses `what`.
fn ran(home: &CommandHome, what: &str, args: &[&str]) -> String {
    #[expect(
        clippy::disallowed_methods,
        reason = "the program is run under another kernel's rules"
    )]
    let output = std::process::Command::new(filter_program())
        .args([what, TOOLKEEP])
        .args(args)
        .args(["--data"])
        .arg(home.path("data"))
        .current_dir(home.path(""))
        .env_remove("TOOLKEEP_KEY")
        // A machine on which much runs at once starts its sandboxes slowly.
        .env("TOOLKEEP_SOURCE_TIMEOUT", "60s")
        .output()
        .unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// The findings of `doctor` by name: state, detail and fix.
fn doctor(home: &CommandHome, what: &str, args: &[&str]) -> Vec<(String, String, String)> {
    let told = ran(home, what, &[&["doctor", "-o", "json"], args].concat());
    let told: Value = serde_json::from_str(&told).unwrap_or_else(|_| panic!("{told}"));
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let findings = told["findings"].as_array().unwrap().iter();
    findings
        .filter(|it| {
            ["user namespaces", "landlock", "seccomp", "sandbox"]
                .contains(&it["what"].as_str().unwrap())
        })
        .map(|it| {
            (text(&it["what"]) + " " + &text(&it["state"]), text(&it["detail"]), text(&it["fix"]))
        })
        .collect()
}

fn states(found: &[(String, String, String)]) -> Vec<&str> {
    found.iter().map(|(state, ..)| state.as_str()).collect()
}

/// The names of all tools that are offered.
fn offered(home: &CommandHome, what: &str, args: &[&str]) -> BTreeSet<String> {
    let told = ran(home, what, &[&["tool", "list", "-o", "json"], args].concat());
    let json = told.find('{').and_then(|from| told.get(from..)).unwrap_or_default();
    let told: Value = serde_json::from_str(json).unwrap_or_else(|_| panic!("{told}"));
    let tools = told["tools"].as_array().unwrap_or_else(|| panic!("{told}")).iter();
    tools.map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
}

/// Returns the tools that are missing compared with an unrestricted kernel. No others may replace
/// them.
fn missing(home: &CommandHome, what: &str, args: &[&str]) -> Vec<String> {
    let (all, found) = (offered(home, "nothing", &[]), offered(home, what, args));
    assert!(all.len() > 40 && found.is_subset(&all), "{what}: {found:?}");
    all.difference(&found).cloned().collect()
}

#[test]
fn with_everything_the_sandbox_is_whole() {
    let home = CommandHome::new();
    let found = doctor(&home, "nothing", &[]);
    let wanted = ["user namespaces good", "landlock good", "seccomp good", "sandbox good"];
    assert_eq!(states(&found), wanted, "{found:?}");
    assert!(found[3].1.starts_with("whole: "), "{found:?}");
    let offered = offered(&home, "nothing", &[]);
    assert!(TOOLS.iter().all(|name| offered.contains(*name)), "{offered:?}");
}

#[test]
fn without_namespaces_the_operator_decides() {
    let home = CommandHome::new();
    let found = doctor(&home, "namespaces", &[]);
    let wanted = ["user namespaces doubtful", "landlock good", "seccomp good", "sandbox doubtful"];
    assert_eq!(states(&found), wanted, "{found:?}");
    assert!(found[3].2.contains("server: { min_sandbox: fenced }"), "{found:?}");
    assert_eq!(missing(&home, "namespaces", &[]), TOOLS);
    let why = ran(&home, "namespaces", &["source", "list"]);
    assert!(
        why.contains("tool run_shell: is not offered: a full sandbox is not available"),
        "{why}"
    );
    home.write("fenced.yaml", "version: 1\nserver: { min_sandbox: fenced }\n");
    let fenced = ["--config", "fenced.yaml"];
    let found = doctor(&home, "namespaces", &fenced);
    assert_eq!(states(&found)[3], "sandbox good", "{found:?}");
    assert!(found[3].1.starts_with("fenced: "), "{found:?}");
    // The superuser's folder cannot be mapped without namespaces.
    let root = rustix::process::geteuid().is_root();
    let wanted: &[&str] = if root { &["run_shell"] } else { &[] };
    assert_eq!(missing(&home, "namespaces", &fenced), wanted);
    let sum = ["tool", "call", "python_eval", "expression='a' * 3"];
    let told = ran(&home, "namespaces", &[&sum[..], &fenced].concat());
    assert!(told.contains("aaa"), "{told}");
}

#[test]
fn without_landlock_there_is_no_sandbox() {
    let home = CommandHome::new();
    home.write("fenced.yaml", "version: 1\nserver: { min_sandbox: fenced }\n");
    for what in ["landlock", "landlock-denied", "namespaces+landlock"] {
        let found = doctor(&home, what, &["--config", "fenced.yaml"]);
        assert_eq!(
            states(&found)[1..],
            ["landlock doubtful", "seccomp good", "sandbox doubtful"],
            "{what}"
        );
        assert!(found[3].1.contains("landlock"), "{what}: {found:?}");
        assert_eq!(missing(&home, what, &["--config", "fenced.yaml"]), TOOLS, "{what}");
        let told = ran(&home, what, &["tool", "call", "python_eval", "expression=1"]);
        assert!(
            told.contains("no tool `python_eval`") || told.contains("unknown"),
            "{what}: {told}"
        );
    }
}

/// A language model is untrusted data, so nothing runs it outside a sandbox.
#[test]
fn without_a_sandbox_word_vectors_answer_in_the_place_of_a_model() {
    let home = CommandHome::new();
    write(&home.path("small"), Shape::PUBLIC);
    let embed = ["tool", "call", "embed_text", "text=cat", "-o", "json"];
    let numbers = |what: &str| ran(&home, what, &embed).matches("0.").count();
    let refused = ran(&home, "landlock", &["model", "install", "small"]);
    assert!(refused.contains("a language model requires a sandbox"), "{refused}");
    let installed = ran(&home, "nothing", &["model", "install", "small"]);
    assert!(installed.contains("installed small, 4 dimensions"), "{installed}");
    assert!(numbers("nothing") < 10 && numbers("landlock") > 100);
    let shown = ran(&home, "landlock", &["tool", "show", "embed_text"]);
    assert!(shown.contains("no sandbox for its language model"), "{shown}");
    let listed = ran(&home, "landlock", &["source", "list"]);
    assert!(listed.contains("language model small, 4 dimensions: is not used: "), "{listed}");
    let doctor = ran(&home, "landlock", &["doctor"]);
    assert!(doctor.contains("small, 4 dimensions is not used, so embed_text"), "{doctor}");
}

#[test]
fn a_command_waits_for_a_person() {
    let home = CommandHome::new();
    let held = home.run(&["tool", "call", "run_shell", "command=echo $((6*7)); pwd"]);
    let told = held.out.clone() + &held.err;
    assert!(told.contains("approv"), "{told}");
}

/// Plugins of each kind run in a fenced sandbox, also for root: their processes run as another user
/// there, without access to root's folders. A compiled program runs like a script.
#[test]
fn plugins_run_in_a_fenced_sandbox_where_the_operator_allows_it() {
    let home = CommandHome::new();
    home.write("fenced.yaml", "version: 1\nserver: { min_sandbox: fenced }\n");
    for kind in ["python", "command", "mcp"] {
        let new = ran(&home, "nothing", &["plugin", "new", kind, "--kind", kind]);
        assert!(new.contains("manifest.json"), "{new}");
    }
    // The interpreter itself stands for any program that was compiled.
    let compiled = home.path("plugins/compiled");
    std::fs::create_dir(&compiled).unwrap();
    for file in ["main.py", "manifest.json"] {
        std::fs::copy(home.path("plugins/command").join(file), compiled.join(file)).unwrap();
    }
    let python = std::fs::canonicalize("/usr/bin/python3").unwrap();
    std::fs::copy(python, compiled.join("program")).unwrap();
    let manifest = std::fs::read_to_string(compiled.join("manifest.json")).unwrap();
    let manifest = manifest.replace("\"./main.py\"", "\"./program\", \"main.py\"");
    std::fs::write(compiled.join("manifest.json"), manifest).unwrap();
    for plugin in ["python", "command", "mcp", "compiled"] {
        let folder = format!("plugins/{plugin}");
        let test = ["plugin", "test", &folder];
        let whole = ran(&home, "nothing", &test);
        assert!(whole.contains("2 of 2 examples passed"), "{plugin}: {whole}");
        let fenced = ran(&home, "namespaces", &[&test[..], &["--config", "fenced.yaml"]].concat());
        assert!(fenced.contains("2 of 2 examples passed"), "{plugin}: {fenced}");
        // Not where the operator does not allow it.
        let none = ran(&home, "namespaces", &test);
        assert!(none.contains("no sandbox is available for it"), "{plugin}: {none}");
    }
}
