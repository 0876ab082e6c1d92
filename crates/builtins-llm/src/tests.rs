//! Tests of tokenization, small models, downloads and invalid models.

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
use crate::wordpiece_tokenizer::WordPieceTokenizer;
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

/// Returns a tokenizer with a vocabulary of a few words.
fn small_tokenizer(max_tokens: usize) -> WordPieceTokenizer {
    let pieces = [
        "[PAD]", "[UNK]", "[CLS]", "[SEP]", "un", "##aff", "##able", "the", "cafe", "!", "中", "a",
    ];
    let vocab: serde_json::Map<String, serde_json::Value> =
        pieces.iter().enumerate().map(|(i, piece)| ((*piece).to_owned(), i.into())).collect();
    let file = serde_json::json!({
        "truncation": { "max_length": max_tokens },
        "added_tokens": [{ "id": 3, "content": "[SEP]" }],
        "normalizer": { "type": "BertNormalizer", "lowercase": true, "strip_accents": null },
        "model": {
            "type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
            "max_input_chars_per_word": 100, "vocab": vocab,
        },
    });
    WordPieceTokenizer::parse_json(file.to_string().as_bytes()).unwrap()
}

#[test]
fn words_become_their_longest_pieces() {
    let tokenizer = small_tokenizer(128);
    assert_eq!(tokenizer.token_ids("unaffable"), [2, 4, 5, 6, 3]);
    assert_eq!(tokenizer.token_ids("THE  Café!"), [2, 7, 8, 9, 3]);
    assert_eq!(tokenizer.token_ids("the\u{200b}\u{0}中a"), [2, 7, 10, 11, 3]);
    assert_eq!(tokenizer.token_ids("unaffabled xyz"), [2, 1, 1, 3]);
    assert_eq!(tokenizer.token_ids(&"a".repeat(101)), [2, 1, 3]);
    assert_eq!(tokenizer.token_ids("the [SEP] the"), [2, 7, 3, 7, 3]);
    assert_eq!(tokenizer.token_ids(""), [2, 3]);
}

#[test]
fn long_texts_are_cut_and_cost_no_more() {
    let tokenizer = small_tokenizer(8);
    assert_eq!(tokenizer.token_ids(&"the ".repeat(100_000)), [2, 7, 7, 7, 7, 7, 7, 3]);
}

#[test]
fn other_kinds_of_words_are_refused_by_name() {
    let file = r#"{"normalizer": {"type": "NFC"}, "model": {"type": "BPE", "unk_token": "", "vocab": {},
                   "continuing_subword_prefix": "", "max_input_chars_per_word": 1}}"#;
    let why = WordPieceTokenizer::parse_json(file.as_bytes()).unwrap_err();
    assert_eq!(why, "it is a BPE with NFC, not WordPiece with BertNormalizer");
    assert!(WordPieceTokenizer::parse_json(b"{}").is_err());
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
