//! Rendering of this repository's Helm chart.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use serde::Deserialize;
use serde_json::Value;

use super::installed_file;

#[derive(Deserialize)]
#[serde(untagged)]
enum RenderOutput {
    Rendered { lint: Vec<Value>, files: BTreeMap<String, String> },
    Refused { error: String },
}

/// Renders the documents of a release with this name in the namespace `toolkeep`, with these values
/// over the chart's defaults.
///
/// # Errors
/// Returns Helm's message if rendering fails.
///
/// # Panics
/// Panics if Helm is not installed or its linter reports a problem.
pub fn render_chart(name: &str, values: &Value) -> Result<Vec<String>, String> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    #[expect(clippy::disallowed_methods, reason = "a test starts programs")]
    let mut python = Command::new(installed_file("venv-helm/bin/python"));
    python.arg("-B").arg(here.join("src/installed_programs/chart.py"));
    python.arg(here.join("../../deploy/helm/toolkeep")).args([name, "toolkeep"]);
    let mut helm = python.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("Python");
    let mut stdin = helm.stdin.take().expect("a pipe");
    stdin.write_all(values.to_string().as_bytes()).expect("it reads");
    drop(stdin);
    let ended = helm.wait_with_output().expect("it ends");
    match serde_json::from_slice(&ended.stdout).expect("what it prints is JSON") {
        RenderOutput::Refused { error } => Err(error),
        RenderOutput::Rendered { lint, files } => {
            assert!(lint.is_empty(), "{lint:?}");
            let documents = files.values().flat_map(|text| text.split("\n---\n"));
            let documents = documents.filter(|text| !text.trim().is_empty());
            Ok(documents.map(str::to_owned).collect())
        }
    }
}
