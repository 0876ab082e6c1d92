//! Tests of small models, downloads and invalid models.

mod downloads;
mod graphs;
mod small_model;

use builtin_manifests::ToolFamily;
use std::path::Path;
use std::sync::Arc;

use builtins::SandboxProvider;
use sandbox::SandboxLevel;
use sandbox::process::ProcessLauncher;

use crate::embedding_model::install_model;
use crate::{TOOLS, language_tools};

/// Sandboxes for workers of the test binary, which is built beside the tests.
fn sandboxes() -> Arc<SandboxProvider> {
    let built = std::env::current_exe().unwrap();
    let launch = built.parent().and_then(Path::parent).unwrap().join("language-launch");
    Arc::new(SandboxProvider::new(
        ProcessLauncher::new(launch, vec!["__launch".into()]),
        None,
        SandboxLevel::NoNamespaces,
    ))
}

#[tokio::test]
async fn the_tools_are_there_without_a_model_and_their_descriptions_say_which_answers() {
    let descriptions = async |models: &Path| {
        let all = language_tools(models, &sandboxes()).await.tools;
        assert_eq!(all.len(), TOOLS.len());
        all.into_iter().map(|it| it.tool.description.clone()).collect::<Vec<_>>()
    };
    for description in descriptions(Path::new("/nowhere")).await {
        assert!(
            description.contains("Model: toolkeep-word-vectors, 192 dimensions."),
            "{description}"
        );
        assert!(description.contains("no language model is installed"), "{description}");
    }
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    small_model::write(&from.path().join("small"), small_model::Shape::PUBLIC);
    install_model(&from.path().join("small"), to.path(), &sandboxes()).await.unwrap();
    for description in descriptions(to.path()).await {
        assert!(description.contains("Model: small, 4 dimensions."), "{description}");
        assert!(!description.contains("word-vectors"), "{description}");
    }
}

#[test]
fn each_entry_has_a_function_and_each_function_an_entry() {
    let names: Vec<&str> = ToolFamily::Text.registry().tool_names().collect();
    assert_eq!(names, TOOLS.iter().map(|(name, _)| *name).collect::<Vec<_>>());
}

#[tokio::test]
async fn what_is_no_model_is_not_installed_and_leaves_what_is() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let told = async |from: &Path| install_model(from, to.path(), &sandboxes()).await.unwrap_err();
    assert!(told(from.path()).await.contains("has no `.onnx` file"));
    std::fs::write(from.path().join("a.onnx"), b"nothing").unwrap();
    assert!(told(from.path()).await.contains("tokenizer.json"));
    std::fs::write(from.path().join("tokenizer.json"), b"{}").unwrap();
    assert!(told(from.path()).await.contains("tokenizer.json"));
    std::fs::write(from.path().join("b.onnx"), b"nothing").unwrap();
    assert!(told(from.path()).await.contains("has 2 `.onnx` files"));
    assert_eq!(std::fs::read_dir(to.path()).unwrap().count(), 0);
}
