//! Tests of the tools with the model of the shared data.

use std::sync::OnceLock;

use serde_json::json;
use testkit::context::{quiet_context, test_caller};
use tool::CallContext;

use crate::calls::{call, given, sandboxes, tools, tried, value};
use crate::examples::every_example_holds;

#[tokio::test]
async fn every_example_is_what_happens() {
    let (_home, tools) = tools().await;
    every_example_holds(&tools).await;
}

#[tokio::test]
async fn a_vector_is_of_length_1_and_the_same_every_time() {
    let (_home, tools) = tools().await;
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
    let (_home, tools) = tools().await;
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
    let (_home, tools) = tools().await;
    let args = json!({ "text": "Simmer the onions in butter.", "categories": ["politics", "cooking", "space"] });
    let found = value(&call(&tools, "classify_text", &args).await);
    assert_eq!(found["category"], "cooking");
    let confidence = found["confidence"].as_f64().unwrap();
    assert!(confidence > 0.4 && confidence <= 1.0, "{found}");
    assert_eq!(found["scores"].as_object().unwrap().len(), 3);
    let twice = json!({ "text": "x", "categories": ["a", "a"] });
    let told = call(&tools, "classify_text", &twice).await;
    assert_eq!(value(&told), json!("`categories[1]` occurs twice"));
}

#[tokio::test]
async fn what_is_installed_is_there_again_and_can_be_replaced() {
    let home = tempfile::tempdir().unwrap();
    for _ in 0..2 {
        let found = builtins_llm::install_model(&given(), home.path(), &sandboxes()).await.unwrap();
        assert!(found.folder().join("model.onnx").is_file());
    }
    let found = builtins_llm::InstalledModel::locate_model(home.path(), &sandboxes()).unwrap();
    assert_eq!(found.embed_texts("", &["a"]).await.unwrap()[0].len(), 384);
    // An invalid file is reported when it is needed, and affects nothing else.
    std::fs::write(found.folder().join("model.onnx"), b"broken").unwrap();
    let broken = builtins_llm::InstalledModel::locate_model(home.path(), &sandboxes()).unwrap();
    assert!(broken.load_model().await.unwrap_err().into_message().contains("model.onnx"));
}

/// Returns the resident KiB of this process.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

#[tokio::test]
async fn the_worker_has_the_model_in_memory_and_this_process_has_not() {
    let home = tempfile::tempdir().unwrap();
    let place = home.path().join("embedding");
    std::fs::create_dir(&place).unwrap();
    for (from, name) in
        [("all-MiniLM-L6-v2-int8.onnx", "model.onnx"), ("tokenizer.json", "tokenizer.json")]
    {
        std::fs::copy(given().join(from), place.join(name)).unwrap();
    }
    let tools = builtins_llm::language_tools(home.path(), &sandboxes()).await.tools;
    let (caller, took) = (test_caller(), OnceLock::new());
    let context = CallContext { sandbox_usage: Some(&took), ..quiet_context(&caller) };
    let before = resident();
    let args = json!({ "text": "The quick brown fox." });
    let outcome = tried(&tools, ("embed_text", &args), &context).await.unwrap();
    let (after, took) = (resident(), took.into_inner().unwrap());
    assert_eq!(value(&outcome).as_array().unwrap().len(), 384);
    // 23 MB of weights: as received and as parsed.
    assert!(took.peak_kib.unwrap() > 46 << 10, "{took:?}");
    assert!(after < before + (12 << 10), "{before} KiB before, {after} KiB after");
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    assert!(!maps.contains("model.onnx"), "{maps}");
    // Control: a model parsed in this process is resident here.
    let file = |name: &str| std::fs::read(place.join(name)).unwrap();
    let here =
        builtins_llm::SentenceModel::parse_model(&file("tokenizer.json"), file("model.onnx"))
            .unwrap();
    assert_eq!(here.dimensions(), 384);
    assert!(resident() > after + (23 << 10), "{after} KiB before, {} KiB after", resident());
}
