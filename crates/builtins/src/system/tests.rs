use std::path::PathBuf;
use std::sync::Arc;

use rooted_fs::rooted_dir::{AccessMode, RootedDir};
use serde_json::{Value, json};
use tool::{AccessScope, CallArguments, OutcomeBody};

use super::file_roots::FileRoots;
use super::{list_directory, read_file, write_file};
use crate::tests::execute;
use builtin_manifests::ToolFamily;
use tool_manifest::BuiltinTool;

struct Place {
    home: tempfile::TempDir,
    tools: [BuiltinTool; 3],
}

/// Folder `work` with a secret beside it, and a read-only folder `more`.
fn place() -> Place {
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join("secret"), "secret").unwrap();
    let folder = |name: &str, access| {
        let path: PathBuf = home.path().join(name);
        std::fs::create_dir(&path).unwrap();
        let root = RootedDir::open_root(&path, access).unwrap();
        (path, root)
    };
    let files = vec![folder("work", AccessMode::ReadWrite), folder("more", AccessMode::ReadOnly)];
    let files = Arc::new(FileRoots::new(files));
    let tools = [
        read_file::build_tool(ToolFamily::General.registry(), Arc::clone(&files)),
        write_file::build_tool(ToolFamily::General.registry(), Arc::clone(&files)),
        list_directory::build_tool(ToolFamily::General.registry(), files),
    ]
    .map(Option::unwrap);
    Place { home, tools }
}

impl Place {
    async fn call(&self, name: &str, args: Value) -> Result<Value, String> {
        let tool = self.tools.iter().find(|tool| tool.tool.name.as_str() == name).unwrap();
        let outcome = execute(tool.clone(), &args.to_string()).await;
        let OutcomeBody::Value(json) = &outcome.body else { panic!("an MCP result") };
        let value = json.to_value();
        if outcome.is_error { Err(value.as_str().unwrap().to_owned()) } else { Ok(value) }
    }
    async fn read(&self, args: Value) -> Result<Value, String> {
        self.call("read_file", args).await
    }
    async fn write(&self, path: &str, content: &str, mode: &str) -> Result<Value, String> {
        self.call("write_file", json!({ "path": path, "content": content, "mode": mode })).await
    }
    async fn names(&self, args: Value) -> Vec<String> {
        let listed = self.call("list_directory", args).await.unwrap();
        let path = |it: &Value| it["path"].as_str().unwrap().to_owned();
        listed.as_array().unwrap().iter().map(path).collect()
    }
    fn path(&self, below: &str) -> String {
        self.home.path().join(below).to_str().unwrap().to_owned()
    }
}

#[tokio::test]
async fn files_are_written_read_and_listed() {
    let place = place();
    let wrote = place.write("a/b/note.txt", "one\n", "w").await.unwrap();
    assert_eq!(wrote, json!({ "bytes_written": 4, "path": "a/b/note.txt" }));
    place.write("a/b/note.txt", "zwölf\n", "a").await.unwrap();
    let read = place.read(json!({ "path": "./a/b/note.txt" })).await.unwrap();
    assert_eq!((&read["content"], &read["size"]), (&json!("one\nzwölf\n"), &json!(11)));
    assert_eq!(read["truncated"], false);
    assert!(read["modified"].as_str().unwrap().ends_with('Z'), "{read}");
    place.write("a/other.md", "", "w").await.unwrap();
    assert_eq!(place.names(json!({ "path": "." })).await, ["a"]);
    assert_eq!(place.names(json!({ "path": "a", "pattern": "*.md" })).await, ["a/other.md"]);
    let all = place.names(json!({ "path": "", "recursive": true })).await;
    assert_eq!(all, ["a", "a/b", "a/other.md", "a/b/note.txt"]);
    let absolute = json!({ "path": place.path("work/a"), "pattern": "[xo]*" });
    assert_eq!(place.names(absolute).await, [place.path("work/a/other.md")]);
}

#[tokio::test]
async fn a_file_is_cut_and_decoded_as_asked() {
    let place = place();
    std::fs::write(place.path("work/x"), "a€b").unwrap();
    let read = place.read(json!({ "path": "x", "max_bytes": 3 })).await.unwrap();
    assert_eq!((&read["content"], &read["truncated"]), (&json!("a"), &json!(true)));
    assert_eq!(read["size"], 5);
    std::fs::write(place.path("work/y"), [b'a', 0xff, 0xfe]).unwrap();
    let told = place.read(json!({ "path": "y" })).await.unwrap_err();
    assert_eq!(
        told,
        "the file is not valid utf-8 at byte 1; use the encoding `latin-1` or \
        `base64`"
    );
    let latin = place.read(json!({ "path": "y", "encoding": "latin-1" })).await.unwrap();
    assert_eq!(latin["content"], "aÿþ");
    let bytes = place.read(json!({ "path": "y", "encoding": "base64" })).await.unwrap();
    assert_eq!(bytes["content"], "Yf/+");
}

#[tokio::test]
async fn nothing_outside_is_reached() {
    let place = place();
    std::os::unix::fs::symlink(place.path("secret"), place.path("work/link")).unwrap();
    std::os::unix::fs::symlink(place.path(""), place.path("work/up")).unwrap();
    // Control: the targets exist, and these links lead to them.
    assert_eq!(std::fs::read_to_string(place.path("work/up/secret")).unwrap(), "secret");
    let tricks =
        ["link", "../secret", "up/secret", "a/../../secret", &place.path("work/../secret")];
    for path in tricks {
        let told = place.read(json!({ "path": path })).await.unwrap_err();
        assert!(told.contains("there is no"), "{path}: {told}");
        // A link may be replaced, by a file inside.
        let _told = place.write(path, "changed", "w").await;
    }
    for path in ["/etc/passwd", &place.path("secret"), &place.path("workshop/x")] {
        let told = place.read(json!({ "path": path })).await.unwrap_err();
        assert_eq!(told, format!("Path not allowed: {path}"));
    }
    assert_eq!(std::fs::read_to_string(place.path("secret")).unwrap(), "secret");
    let below = place.names(json!({ "path": ".", "recursive": true })).await;
    assert!(below.iter().all(|path| !path.starts_with("up/")), "{below:?}");
}

#[tokio::test]
async fn what_cannot_be_done_says_why() {
    let place = place();
    assert_eq!(place.write("x", "", "x").await.unwrap_err(), "Invalid mode: x");
    let told = place.write(&place.path("more/x"), "", "w").await.unwrap_err();
    assert!(told.contains("configured as read-only"), "{told}");
    let listed = json!({ "path": ".", "pattern": "[" });
    let told = place.call("list_directory", listed).await.unwrap_err();
    assert!(told.starts_with("pattern: "), "{told}");
}

/// Regression: each of these was held for approval, approved by a person, and failed afterwards.
#[tokio::test]
async fn what_cannot_succeed_is_rejected_before_the_call_runs_as_the_run_would() {
    let place = place();
    let check = |name: &str, args: &Value| {
        let tool = place.tools.iter().find(|tool| tool.tool.name.as_str() == name).unwrap();
        tool.executor.validate_arguments(&CallArguments::parse(args.to_string()).unwrap())
    };
    let writes = |path: &str, mode: &str| json!({ "path": path, "content": "1", "mode": mode });
    let readonly = place.path("more/x");
    for (name, args, told) in [
        ("write_file", writes("/tmp/evil", "w"), "Path not allowed: /tmp/evil"),
        ("write_file", writes("../x", "w"), "there is no `../x`"),
        ("write_file", writes("a/../../x", "w"), "there is no `a/../../x`"),
        ("write_file", writes("a/", "w"), "there is no `a/`"),
        ("write_file", writes("x", "x"), "Invalid mode: x"),
        ("write_file", writes(&readonly, "w"), "configured as read-only"),
        ("write_file", writes(".git/config", "w"), "there is no"),
        ("read_file", json!({ "path": "../secret" }), "there is no `../secret`"),
        ("read_file", json!({ "path": "/etc/passwd" }), "Path not allowed: /etc/passwd"),
        ("list_directory", json!({ "path": ".." }), "there is no `..`"),
        ("list_directory", json!({ "path": ".", "pattern": "[" }), "pattern: "),
    ] {
        let rejected = check(name, &args).unwrap_err();
        assert!(rejected.contains(told), "{name} {args}: {rejected}");
        assert_eq!(place.call(name, args).await.unwrap_err(), rejected, "one rule for both");
    }
    // Control: valid arguments pass, and the check itself writes nothing.
    for path in ["a/x", "./x", "a/../x", &place.path("work/y")] {
        check("write_file", &writes(path, "a")).unwrap();
    }
    assert_eq!(place.names(json!({ "path": "." })).await, [""; 0]);
    std::fs::create_dir(place.path("work/a")).unwrap();
    place.write("a/../x", "1", "w").await.unwrap();
}

#[test]
fn they_say_what_they_reach_for() {
    let [read, write, list] = place().tools;
    for tool in [&read, &list] {
        assert!(!tool.tool.traits.effects.may_change_state() && tool.tool.traits.is_idempotent);
    }
    assert!(write.tool.traits.effects.may_change_state() && !write.tool.traits.is_idempotent);
    for tool in [read, write, list] {
        assert_eq!(tool.tool.traits.scopes, [AccessScope::Filesystem]);
        assert_eq!(tool.tool.traits.categories, ["system", "file"]);
    }
}

/// Hazard S9: a root is a folder, not a text prefix, and it is not checked separately before its
/// use.
#[tokio::test]
async fn hazard_s9_a_root_is_no_prefix_and_is_not_looked_up_again() {
    let place = place();
    std::fs::create_dir(place.path("work-of-others")).unwrap();
    std::fs::write(place.path("work-of-others/x"), "OUT").unwrap();
    // Control: the text of one path begins with the text of the other.
    assert!(place.path("work-of-others/x").starts_with(&place.path("work")));
    let told = place.read(json!({ "path": place.path("work-of-others/x") })).await.unwrap_err();
    assert!(told.starts_with("Path not allowed: "), "{told}");
    // Another folder at its path, or a link, is not the root.
    std::fs::write(place.path("work/mine"), "mine").unwrap();
    std::fs::rename(place.path("work"), place.path("moved")).unwrap();
    std::os::unix::fs::symlink(place.path("work-of-others"), place.path("work")).unwrap();
    assert_eq!(place.read(json!({ "path": "mine" })).await.unwrap()["content"], "mine");
    assert!(place.read(json!({ "path": "x" })).await.is_err());
}

#[tokio::test]
async fn nothing_is_written_below_a_git_folder() {
    let place = place();
    std::fs::create_dir_all(place.path("work/repo/.git/hooks")).unwrap();
    for path in ["repo/.git/hooks/pre-commit", "repo/.GIT/config", ".git/x"] {
        assert!(place.write(path, "#!/bin/sh", "w").await.is_err(), "{path}");
    }
    place.write("repo/.gitignore", "x", "w").await.unwrap();
    assert!(!std::fs::exists(place.path("work/.git")).unwrap());
}
