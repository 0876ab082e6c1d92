//! Answers of the tools with the model of the shared data.

use serde_json::json;

use crate::calls::{call, given, tools, value};
use crate::examples::every_example_holds;

#[tokio::test]
async fn every_example_is_what_happens() {
    let (_home, tools) = tools();
    every_example_holds(&tools).await;
}

#[tokio::test]
async fn a_vector_is_of_length_1_and_the_same_every_time() {
    let (_home, tools) = tools();
    let args = json!({ "text": "The quick brown fox." });
    let [first, second] =
        [call(&tools, "embed_text", &args).await, call(&tools, "embed_text", &args).await]
            .map(|outcome| value(&outcome));
    assert_eq!(first, second);
    let embed = tools.iter().find(|it| it.tool.name.as_str() == "embed_text").unwrap();
    assert!(embed.tool.description.contains(", 384 dimensions"), "{}", embed.tool.description);
    let vector: Vec<f64> = serde_json::from_value(first).unwrap();
    assert_eq!(vector.len(), 384);
    assert!((vector.iter().map(|x| x * x).sum::<f64>() - 1.0).abs() < 1e-5);
}

#[tokio::test]
async fn the_nearest_comes_first_and_no_more_than_asked() {
    let (_home, tools) = tools();
    let items = [
        "Rust is a language.",
        "Cats purr when content.",
        "A feline makes a low sound.",
        "Tax law",
    ];
    let args = json!({ "query": "noises of a happy cat", "items": items, "top_k": 2 });
    let found = value(&call(&tools, "similarity_search", &args).await);
    let found = found.as_array().unwrap();
    assert_eq!(found.len(), 2);
    let mut places = [&found[0]["index"], &found[1]["index"]].map(|it| it.as_u64().unwrap());
    places.sort_unstable();
    assert_eq!(places, [1, 2]);
    assert!(found[0]["score"].as_f64() >= found[1]["score"].as_f64());
    let empty = json!({ "query": "x", "items": ["a", "  "] });
    let told = call(&tools, "similarity_search", &empty).await;
    assert_eq!((told.is_error, value(&told)), (true, json!("`items[1]` is empty")));
}

#[tokio::test]
async fn categories_have_scores_and_the_shares_make_one() {
    let (_home, tools) = tools();
    let args = json!({ "text": "Simmer the onions in butter.", "categories": ["politics", "cooking", "space"] });
    let found = value(&call(&tools, "classify_text", &args).await);
    assert_eq!(found["category"], "cooking");
    let confidence = found["confidence"].as_f64().unwrap();
    assert!(confidence > 0.4 && confidence <= 1.0, "{found}");
    assert_eq!(found["scores"].as_object().unwrap().len(), 3);
    let twice = json!({ "text": "x", "categories": ["a", "a"] });
    let told = call(&tools, "classify_text", &twice).await;
    assert_eq!(value(&told), json!("`categories[1]` is there twice"));
}

#[test]
fn what_is_installed_is_there_again_and_can_be_replaced() {
    let home = tempfile::tempdir().unwrap();
    for _ in 0..2 {
        let found = builtins_llm::install(&given(), home.path()).unwrap();
        assert!(found.folder().join("model.onnx").is_file());
    }
    let found = builtins_llm::Installed::find(home.path()).unwrap();
    assert_eq!(found.sentences().unwrap().vector("a").unwrap().len(), 384);
    // A file that is none is said when it is needed, and takes nothing else down.
    std::fs::write(found.folder().join("model.onnx"), b"broken").unwrap();
    let broken = builtins_llm::Installed::find(home.path()).unwrap();
    assert!(broken.sentences().unwrap_err().contains("model.onnx"));
}
