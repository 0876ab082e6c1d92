//! Tests of the plugin `lisp_image` on a real SBCL: Debian's, or the one that `TOOLKEEP_SBCL`
//! names.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::support::installation::Installation;
use crate::support::rest_client::Client;
use crate::support::server_process::{Server, TOOLKEEP, start_server};

/// With the default policy, tools that the safety-level library classifies as safe and cautious
/// run. Evaluations may take 3 s.
fn home(work: &Path) -> Installation {
    let shipped =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../plugins").canonicalize().unwrap();
    let sbcl = std::env::var_os("TOOLKEEP_SBCL").map(PathBuf::from);
    let programs =
        sbcl.as_ref().map(|path| format!(", programs: [{}]", path.display())).unwrap_or_default();
    let grant = format!("lisp_image: {{ write: {}{programs} }}", work.display());
    let home = Installation::new(&format!(
        "version: 1\nplugins:\n  folders: [{}]\n  settings: ./settings\n  grants:\n    {grant}\n",
        shipped.display()
    ));
    std::fs::create_dir(home.path("settings")).unwrap();
    let at = sbcl.map(|path| path.display().to_string()).unwrap_or_default();
    let settings = json!({"custom_config": {"eval_seconds": 3, "sbcl_home": at}});
    home.write("settings/lisp_image.json", &settings.to_string());
    home
}

async fn text(agent: &Client, tool: &str, args: Value) -> String {
    let reply = agent.call(&format!("lisp_image.{tool}"), &args).await;
    assert_eq!(reply.status, 200, "{tool} {args}: {reply:?}");
    reply.body["result"].as_str().unwrap().to_owned()
}

/// Each line: a tool, its arguments, and what its text holds.
async fn hold(agent: &Client, lines: &[(&str, Value, &str)]) {
    for (tool, args, held) in lines {
        let said = text(agent, tool, args.clone()).await;
        assert!(said.contains(held), "{tool} {args}: {said}");
    }
}

async fn server(home: &Installation) -> (Server, Client) {
    let server = start_server(home).await;
    let agent = server.agent();
    (server, agent)
}

/// Command line output for people.
async fn person(server: &Server, words: &[&str]) -> String {
    let key = std::fs::read_to_string(server.data.join("owner.key")).unwrap();
    let mut command = tokio::process::Command::new(TOOLKEEP);
    command.args(words).args(["--url", &server.url]).env("TOOLKEEP_KEY", key.trim());
    let output = command.output().await.unwrap();
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{told}{}", String::from_utf8_lossy(&output.stderr));
    told
}

#[tokio::test]
async fn an_image_is_looked_into_and_evaluated_in() {
    let work = tempfile::tempdir().unwrap();
    let home = home(&work.path().canonicalize().unwrap());
    let (server, agent) = server(&home).await;
    hold(&agent, &[
        ("get_last_error", json!({}), "No recent errors recorded."),
        ("get_repl_history", json!({}), "No REPL history available."),
        ("eval_form", json!({"form": "(values (+ 1 2) :b)"}), "Result: 3\n:B"),
        ("compile_form", json!({"form": "(defun sq (x) (* x x)) (defun use-sq (y) (1+ (sq y)))"}), "Compilation succeeded"),
        ("who_calls", json!({"function": "sq"}), "COMMON-LISP-USER::USE-SQ"),
        ("who_calls", json!({"function": "use-sq"}), "none found"),
        ("compile_form", json!({"form": "(defvar *v* 1) (defun see () *v*)"}), "Compilation succeeded"),
        ("who_references", json!({"variable": "*v*"}), "COMMON-LISP-USER::SEE"),
        ("who_references", json!({"variable": "*none*"}), "not found in package COMMON-LISP-USER (status: NIL)"),
        ("describe_symbol", json!({"symbol": "sq"}), "compiled function"),
        ("describe_symbol", json!({"symbol": "car", "package": "nope"}), "Package NOPE not found"),
        ("apropos_search", json!({"pattern": "string-trim"}), "COMMON-LISP::STRING-TRIM [function]"),
        ("function_arglist", json!({"function": "sq"}), "SQ (X)"),
        ("function_arglist", json!({"function": "*v*"}), "*V* is not a function"),
        ("eval_form", json!({"form": "(defpackage :q (:export :a)) (defclass pt () ((x :initarg :x :type fixnum))) (defclass pt3 (pt) ())"}), "PT3"),
        ("list_package_symbols", json!({"package": "q"}), "1 external symbols in Q:\nA [symbol]"),
        ("list_package_symbols", json!({"package": "none"}), "Package NONE not found"),
        ("class_slots", json!({"class": "pt"}), "X initargs (:X) type FIXNUM"),
        ("class_slots", json!({"class": "sq"}), "Class SQ not found"),
        ("class_hierarchy", json!({"class": "pt"}), "Direct subclasses:\nPT3"),
        ("class_hierarchy", json!({"class": "nope"}), "not found"),
        ("macroexpand_form", json!({"form": "(when a b)"}), "one step"),
        ("macroexpand_form", json!({"form": "(when a"}), "Error: "),
        ("eval_form", json!({"form": "(error \"ouch\")"}), "Error: ouch\nUse get_last_error"),
        ("get_last_error", json!({}), "Type: SIMPLE-ERROR\nCondition: ouch"),
        ("compile_form", json!({"form": "(defun bad () (car 1 2))"}), "called with two arguments"),
        ("eval_form", json!({"form": "(make-string 9000 :initial-element #\\a)"}), "aaa... [truncated]"),
        ("eval_form", json!({"form": "(loop)"}), "was cut off; the image goes on"),
        ("eval_form", json!({"form": "(sq 4)"}), "Result: 16"),
        ("eval_form", json!({"form": "(sb-sys:without-interrupts (loop))"}), "nor to an interrupt, and was ended"),
        ("eval_form", json!({"form": "(+ 1 1)"}), "was started again"),
        ("get_repl_history", json!({"limit": 3}), "(sq 4)\n   => 16"),
    ])
    .await;
    assert!(server.stop().await.success());
}

/// An agent reads a file and its definitions.
async fn looked_at(agent: &Client) {
    hold(
        agent,
        &[
            ("read_file", json!({"path": "a.lisp"}), "(defun rate () 1)"),
            ("read_file", json!({"path": "none.lisp"}), "Error reading none.lisp"),
            ("read_buffer", json!({"buffer": "a.lisp", "start": 1, "end": 6}), "defun"),
            ("read_buffer", json!({"buffer": "none"}), "Buffer none not found"),
            (
                "search_in_buffer",
                json!({"pattern": "rate", "buffer": "a.lisp"}),
                "Found 2 matches in a.lisp",
            ),
            ("search_in_buffer", json!({"pattern": "none", "buffer": "a.lisp"}), "No matches"),
            (
                "eval_form",
                json!({"form": "(load (compile-file \"a.lisp\" :output-file \"/tmp/a.fasl\"))"}),
                "Result: T",
            ),
            ("who_calls", json!({"function": "rate"}), "PRICE"),
            ("eval_form", json!({"form": "(price 7)"}), "Result: 7"),
        ],
    )
    .await;
}

#[tokio::test]
async fn an_agent_finds_a_caller_and_the_hunk_that_a_person_accepts_answers_differently() {
    let work = tempfile::tempdir().unwrap();
    let folder = work.path().canonicalize().unwrap();
    let before = "(defun rate () 1)\n(defun price (x) (* x (rate)))\n";
    std::fs::write(folder.join("a.lisp"), before).unwrap();
    let home = home(&folder);
    let (server, agent) = server(&home).await;
    looked_at(&agent).await;
    // Dangerous: held until a person agrees.
    let both = "(defun rate () 3)\n(defun price (x) (+ x (rate)))\n";
    let edit =
        json!({"path": "a.lisp", "original": before, "modified": both, "description": "new rates"});
    let held = agent.call("lisp_image.propose_file_edit", &edit).await;
    assert_eq!(held.status, 202, "{held:?}");
    assert!(std::fs::read_to_string(folder.join("a.lisp")).unwrap().contains("() 1"));
    // One hunk of the two: the person has the other as it was.
    let one = "(defun rate () 3)\n(defun price (x) (* x (rate)))\n";
    let shown = person(&server, &["approval", "show", held.call_id()]).await;
    for line in [
        "hunk 1 of 2, line 1",
        "+(defun rate () 3)",
        "hunk 2 of 2, line 2",
        "-(defun price (x) (* x (rate)))",
    ] {
        assert!(shown.contains(line), "{shown}");
    }
    person(&server, &["approval", "edit", held.call_id(), "--hunks", "1", "--approve"]).await;
    for _ in 0..500 {
        if std::fs::read_to_string(folder.join("a.lisp")).unwrap() == one {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    hold(
        &agent,
        &[
            ("read_buffer", json!({"buffer": "a.lisp"}), one),
            ("compile_form", json!({"form": one}), "Compilation succeeded"),
            ("eval_form", json!({"form": "(price 7)"}), "Result: 21"),
        ],
    )
    .await;
    let write = json!({"path": "b.lisp", "content": "x"});
    let refused = agent.call("lisp_image.write_file", &write).await;
    assert_eq!(refused.status, 202, "a dangerous tool is held: {refused:?}");
    assert!(server.stop().await.success());
}

/// Every tool of the image: its arguments, the text of its result, and whether it succeeds.
type Case = (&'static str, Value, &'static str, bool);

fn cases() -> Vec<Case> {
    let all = [cases_of_evaluation(), cases_of_definitions(), cases_of_texts()];
    all.into_iter().flatten().collect()
}

fn cases_of_evaluation() -> Vec<Case> {
    vec![
        ("get_last_error", json!({}), "No recent errors recorded.", false),
        ("get_repl_history", json!({}), "No REPL history available.", false),
        (
            "compile_form",
            json!({"form": "(defun sq (x) (* x x)) (defun use-sq (y) (sq y))"}),
            "Compilation succeeded",
            true,
        ),
        ("compile_form", json!({"form": "(defun"}), "Compilation failed", false),
        (
            "eval_form",
            json!({"form": "(progn (defvar *v* 2) (defclass pt () ((x :initarg :x))) (sq *v*))"}),
            "Result: 4",
            true,
        ),
        ("eval_form", json!({"form": "(error \"ouch\")"}), "Error: ouch", false),
        ("get_last_error", json!({}), "Condition: ouch", true),
        ("get_repl_history", json!({}), "=> 4", true),
    ]
}

fn cases_of_definitions() -> Vec<Case> {
    vec![
        ("describe_symbol", json!({"symbol": "sq"}), "compiled function", true),
        ("describe_symbol", json!({"symbol": "none-such"}), "not found in package", false),
        ("apropos_search", json!({"pattern": "use-sq"}), "USE-SQ [function]", true),
        (
            "apropos_search",
            json!({"pattern": "a", "package": "nope"}),
            "Package NOPE not found",
            false,
        ),
        ("function_arglist", json!({"function": "sq"}), "SQ (X)", true),
        ("function_arglist", json!({"function": "*v*"}), "is not a function", false),
        ("who_calls", json!({"function": "sq"}), "USE-SQ", true),
        ("who_calls", json!({"function": "none-such"}), "not found in package", false),
        ("compile_form", json!({"form": "(defun see () *v*)"}), "Compilation succeeded", true),
        ("who_references", json!({"variable": "*v*"}), "SEE", true),
        ("who_references", json!({"variable": "*none-such*"}), "not found in package", false),
        (
            "list_package_symbols",
            json!({"package": "sb-introspect"}),
            "external symbols in SB-INTROSPECT",
            true,
        ),
        ("list_package_symbols", json!({"package": "nope"}), "Package NOPE not found", false),
        ("class_slots", json!({"class": "pt"}), "X initargs (:X)", true),
        ("class_slots", json!({"class": "sq"}), "Class SQ not found", false),
        ("class_hierarchy", json!({"class": "pt"}), "STANDARD-OBJECT", true),
        ("class_hierarchy", json!({"class": "sq"}), "Class SQ not found", false),
        ("macroexpand_form", json!({"form": "(when a b)", "full": true}), "full", true),
        ("macroexpand_form", json!({"form": "(when a"}), "Error: ", false),
    ]
}

fn cases_of_texts() -> Vec<Case> {
    let edit = |original: &str| json!({"path": "a.lisp", "original": original, "modified": "(defun rate () 2)\n", "description": "d"});
    vec![
        ("read_file", json!({"path": "a.lisp"}), "(defun rate () 1)", true),
        ("read_file", json!({"path": "none.lisp"}), "Error reading none.lisp", false),
        ("read_buffer", json!({"buffer": "a.lisp"}), "(defun rate () 1)", true),
        ("read_buffer", json!({"buffer": "none"}), "Buffer none not found", false),
        (
            "search_in_buffer",
            json!({"pattern": "ra.e", "buffer": "a.lisp", "regex": true}),
            "Found 1 match",
            true,
        ),
        (
            "search_in_buffer",
            json!({"pattern": "(", "buffer": "a.lisp", "regex": true}),
            "no regular expression",
            false,
        ),
        ("propose_file_edit", edit("(defun rate () 1)\n"), "+(defun rate () 2)", true),
        (
            "propose_file_edit",
            edit("(defun other () 1)\n"),
            "no longer holds the original text",
            false,
        ),
        ("write_file", json!({"path": "b.lisp", "content": "é"}), "Wrote 2 bytes to b.lisp", true),
        (
            "write_file",
            json!({"path": "none/b.lisp", "content": "x"}),
            "Error writing none/b.lisp",
            false,
        ),
    ]
}

/// Counted against what the server lists: eighteen tools, each with a success and a failure.
#[tokio::test]
async fn each_lisp_tool_has_a_success_and_a_failure() {
    let work = tempfile::tempdir().unwrap();
    let folder = work.path().canonicalize().unwrap();
    std::fs::write(folder.join("a.lisp"), "(defun rate () 1)\n").unwrap();
    let home = home(&folder);
    let (server, agent) = server(&home).await;
    let owner = server.owner();
    let mut met: BTreeMap<String, (bool, bool)> = BTreeMap::new();
    for (tool, args, held, good) in cases() {
        let mut reply = agent.call(&format!("lisp_image.{tool}"), &args).await;
        if reply.status == 202 {
            // Dangerous: a person agrees.
            assert!(["write_file", "propose_file_edit"].contains(&tool), "{tool}: {reply:?}");
            let id = reply.call_id().to_owned();
            let path = format!("/v1/approvals/{id}/approve");
            assert!(owner.post(&path, &json!({})).await.status < 300);
            reply = agent.post(&format!("/v1/calls/{id}/resume?wait=30s"), &json!({})).await;
        }
        let said =
            reply.body["result"].as_str().unwrap_or_else(|| panic!("{tool} {args}: {reply:?}"));
        assert!(said.contains(held), "{tool} {args}: {said}");
        let both = met.entry(tool.to_owned()).or_default();
        if good { both.0 = true } else { both.1 = true }
    }
    assert!(met.values().all(|both| *both == (true, true)), "{met:?}");
    let listed = owner.get("/v1/plugins").await;
    let plugins = listed.body["plugins"].as_array().unwrap();
    let image = plugins.iter().find(|it| it["name"] == "lisp_image").unwrap();
    let tools = image["tools"].as_array().unwrap().iter();
    let names: BTreeSet<_> = tools.map(|tool| tool["name"].as_str().unwrap().to_owned()).collect();
    assert_eq!((names.len(), &names), (18, &met.into_keys().collect()), "tools and their cases");
    assert!(server.stop().await.success());
}
