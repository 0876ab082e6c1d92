use std::fs;
use std::sync::Arc;

use config::{Environment, LoadOptions};
use serde_json::{Map, Value, json};

use super::{ConfigEdit, EditErrorKind};

const FILE: &str = "version: 1 # mine\nsources:\n  - { name: a, tools: ./t.yaml }\n\n# rest\n";

struct Folder(tempfile::TempDir);

impl Folder {
    fn with_file(text: &str) -> Self {
        let folder = Self(tempfile::tempdir().unwrap());
        fs::write(folder.file(), text).unwrap();
        folder
    }

    fn file(&self) -> std::path::PathBuf {
        self.0.path().join("toolkeep.yaml")
    }

    fn options(&self) -> LoadOptions {
        LoadOptions {
            file: Some("toolkeep.yaml".into()),
            listen: None,
            allowed_hosts: Vec::new(),
            behind_tls: false,
            data_dir: Some(self.0.path().join("data")),
            current_dir: self.0.path().to_owned(),
            environment: Arc::new(Environment::default()),
        }
    }

    fn edit(&self) -> ConfigEdit {
        ConfigEdit::open(self.options()).unwrap()
    }
}

fn entry(value: &Value) -> Map<String, Value> {
    value.as_object().cloned().unwrap()
}

#[test]
fn a_source_is_written_once_it_is_planned_and_written() {
    let folder = Folder::with_file(FILE);
    let source = entry(&json!({"name": "b", "mcp": {"url": "https://h.example/mcp"}}));
    let addition = folder.edit().add_source(&source).unwrap();
    assert_eq!(addition.line, 4);
    assert_eq!(addition.lines, "  - name: b\n    mcp:\n      url: https://h.example/mcp\n");
    assert_eq!(addition.config.sources.len(), 2);
    assert_eq!(fs::read_to_string(folder.file()).unwrap(), FILE, "not written yet");
    addition.write().unwrap();
    let expected = FILE.replace("\n\n# rest", &format!("\n{}\n# rest", addition.lines));
    assert_eq!(fs::read_to_string(folder.file()).unwrap(), expected);
    assert_eq!(fs::read_dir(folder.0.path()).unwrap().count(), 1, "nothing is left beside it");
    // The plan is of a text that is no longer there.
    let error = addition.write().unwrap_err();
    assert!(error.message.ends_with("has changed in the meantime"), "{}", error.message);
}

#[test]
fn what_would_be_an_error_is_not_planned() {
    let folder = Folder::with_file(FILE);
    for (source, told) in [
        (
            json!({"name": "a", "tools": "t.yaml"}),
            "toolkeep.yaml:3:5: the source `a` exists already",
        ),
        (json!({"name": "b b", "tools": "t.yaml"}), "toolkeep.yaml:4:11"),
        (json!({"name": "b", "module": "nowhere"}), "toolkeep.yaml:5:13"),
        (json!({"name": "b", "mcp": {"urll": "https://h.example"}}), "`urll`"),
        (json!({"name": "b"}), "toolkeep.yaml:4:5"),
    ] {
        let error = folder.edit().add_source(&entry(&source)).unwrap_err();
        assert!(error.message.contains(told), "{source}: {}", error.message);
    }
    assert_eq!(fs::read_to_string(folder.file()).unwrap(), FILE);
}

#[test]
fn a_file_that_is_absent_or_wrong_is_not_edited() {
    let folder = Folder::with_file("version: 1\nlissten: x\n");
    let error = ConfigEdit::open(folder.options()).unwrap_err();
    assert!(matches!(error.kind, EditErrorKind::ConfigErrors(_)), "{error:?}");
    let none = LoadOptions { file: None, ..folder.options() };
    assert!(matches!(ConfigEdit::open(none).unwrap_err().kind, EditErrorKind::NoFile));
    let absent = LoadOptions { file: Some("none.yaml".into()), ..folder.options() };
    assert!(matches!(ConfigEdit::open(absent).unwrap_err().kind, EditErrorKind::Failed));
    let flow = Folder::with_file("version: 1\nsources: [{ name: a, tools: t }]\n");
    let error = flow.edit().add_source(&entry(&json!({"name": "b", "tools": "t"}))).unwrap_err();
    assert!(error.message.contains("toolkeep.yaml:2: the list of sources is on one line"));
    assert!(error.help.unwrap().contains("name: b\n"));
}
