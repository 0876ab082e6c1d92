//! Tests of the tools without an installed model.

use serde_json::{Value, json};

use crate::calls::{call, first_day, value};
use crate::examples::every_example_holds;

const MODEL: &str = "toolkeep-word-vectors, 192 dimensions";

#[tokio::test]
async fn every_example_is_what_happens() {
    every_example_holds(&first_day().await).await;
}

#[tokio::test]
async fn each_tool_names_the_model_and_each_answer_with_a_place_for_it() {
    let tools = first_day().await;
    let embedded = value(&call(&tools, "embed_text", &json!({ "text": "bread" })).await);
    assert_eq!(embedded.as_array().unwrap().len(), 192);
    assert!(tools.iter().all(|it| it.tool.description.contains(MODEL)));
    let args = json!({ "query": "a young cat", "items": ["tax law", "kittens at play", "a rocket"], "top_k": 2 });
    let found = value(&call(&tools, "similarity_search", &args).await);
    assert_eq!((found.as_array().unwrap().len(), &found[0]["index"]), (2, &json!(1)));
    assert!(found.as_array().unwrap().iter().all(|it| it["model"] == MODEL), "{found}");
    let args = json!({ "text": "x", "categories": ["a", "b"] });
    assert_eq!(value(&call(&tools, "classify_text", &args).await)["model"], MODEL);
    let nothing = call(&tools, "embed_text", &json!({ "text": "\u{200b}" })).await;
    assert!(nothing.is_error && value(&nothing).as_str().unwrap().contains("no known word"));
}

#[tokio::test]
async fn texts_go_to_the_category_that_a_reader_would_choose() {
    let cases = [
        ("Simmer the onions in butter until soft.", "cooking"),
        ("The striker scored in the last minute of the match.", "sports"),
        ("The central bank raised interest rates again.", "finance"),
        ("The telescope found water on a distant planet.", "astronomy"),
        ("Parliament passed the law by a narrow majority.", "politics"),
        ("The doctor prescribed antibiotics for the infection.", "medicine"),
        ("The guitarist tuned her instrument before the concert.", "music"),
        ("The compiler reports a type error in this function.", "programming"),
        ("Heavy rain and strong winds are expected tomorrow.", "weather"),
        ("We boarded the plane and landed in Lisbon.", "travel"),
    ];
    let categories: Vec<&str> = cases.iter().map(|(_, category)| *category).collect();
    let tools = first_day().await;
    let mut wrong: Vec<Value> = Vec::new();
    for (text, wanted) in cases {
        let args = json!({ "text": text, "categories": categories });
        let found = value(&call(&tools, "classify_text", &args).await);
        if found["category"] != wanted {
            wrong.push(json!([text, found]));
        }
    }
    assert!(wrong.len() <= 1, "{wrong:?}");
}
