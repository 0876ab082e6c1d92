//! Compares with onnxruntime on the same texts and weights, tokenized by Hugging Face's tokenizers.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use testkit::installed_programs::installed_file;

use crate::calls::{given, sandboxes};

fn authority(args: &[&str], input: &Value) -> Value {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/real/vectors.py");
    #[expect(clippy::disallowed_methods, reason = "the authority is a program of its own")]
    let mut python = Command::new(installed_file("venv-math/bin/python"));
    python.arg(script).args(args).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = python.env("HF_HUB_OFFLINE", "1").spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let text = input.to_string();
    let writer = std::thread::spawn(move || stdin.write_all(text.as_bytes()));
    let ended = child.wait_with_output().unwrap();
    writer.join().unwrap().unwrap_or_default();
    assert!(ended.status.success(), "the authority failed");
    serde_json::from_slice(&ended.stdout).unwrap()
}

#[tokio::test]
async fn vectors_are_those_of_onnxruntime() {
    let models = given();
    let home = tempfile::tempdir().unwrap();
    let installed = builtins_llm::install_model(&models, home.path(), &sandboxes()).await.unwrap();
    let tokenizer = std::fs::read(installed.folder().join("tokenizer.json")).unwrap();
    let weights = std::fs::read(installed.folder().join("model.onnx")).unwrap();
    // For the token ids, which the worker does not return.
    let sentences = builtins_llm::SentenceModel::parse_model(&tokenizer, weights).unwrap();
    let texts: Vec<String> = serde_json::from_value(authority(&["cases"], &json!(null))).unwrap();
    assert!(texts.len() >= 220);
    let mut vectors = Vec::new();
    for texts in texts.chunks(100) {
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        vectors.extend(installed.embed_texts("", &texts).await.unwrap());
    }
    let made: Vec<Value> = texts
        .iter()
        .zip(vectors)
        .map(|(text, vector)| json!([text, sentences.tokenize_text(text), vector]))
        .collect();
    let verdict = authority(&["judge", models.to_str().unwrap()], &json!(made));
    println!("{} texts: {verdict}", texts.len());
    assert_eq!(verdict["other"], 0, "other pieces of words: {verdict}");
    assert!(verdict["least"].as_f64().unwrap() > 0.99, "{verdict}");
}
