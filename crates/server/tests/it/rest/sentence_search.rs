//! Tests of search with a sentence model: its vectors rank, are kept, and nothing waits for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};
use server_core::tool_search::{EmbeddingPurpose, SentenceModel, SentenceVectors};
use store::MemoryStore;
use testkit::executor::echo_executor;
use tool::{BoxFuture, Offer, PermissionLevel, Store};

use crate::support::{Client, FixtureServer, ServerSetup, tools};

/// A model that knows that a flimmer is a qwixen, and may fail.
#[derive(Debug, Default)]
struct ScriptedModel {
    embedded_tools: AtomicUsize,
    is_broken: bool,
}

impl SentenceModel for ScriptedModel {
    fn label(&self) -> String {
        "scripted, 3 dimensions".to_owned()
    }

    fn embed_texts<'a>(
        &'a self,
        purpose: EmbeddingPurpose,
        texts: &'a [String],
    ) -> BoxFuture<'a, Result<Vec<Vec<f32>>, String>> {
        if purpose == EmbeddingPurpose::Tools {
            self.embedded_tools.fetch_add(texts.len(), Ordering::Relaxed);
        }
        let vector = |text: &String| match text {
            it if it.contains("flimmer") || it.contains("qwixen") => vec![1.0, 0.0, 0.0],
            it if it.contains("zorblat") => vec![0.0, 1.0, 0.0],
            _ => vec![0.0, 0.0, 1.0],
        };
        let is_refused = self.is_broken && purpose == EmbeddingPurpose::Query;
        let vectors = (!is_refused).then(|| texts.iter().map(vector).collect());
        Box::pin(std::future::ready(vectors.ok_or_else(|| "it is broken".to_owned())))
    }
}

fn offers() -> Vec<Offer> {
    let tool = |name: &str| {
        let description = format!("Does what a {name} does.");
        let tool = testkit::read_only_tool(name, &description, &json!({"type": "object"}));
        tools::tool_offer(tool, echo_executor())
    };
    ["zorblat", "qwixen", "other", "another"].map(tool).to_vec()
}

async fn server_with(vectors: Option<&Arc<SentenceVectors>>) -> (FixtureServer, Client) {
    let (offers, sentence_vectors) = (offers(), vectors.map(Arc::clone));
    let setup = ServerSetup { offers, sentence_vectors, ..ServerSetup::default() };
    let server = FixtureServer::with_setup(setup).await;
    let ann = server.agent_client("ann", PermissionLevel::User).await;
    (server, ann)
}

async fn search(client: &Client, query: &str) -> Value {
    client.get(&format!("/v1/search?q={query}&k=1")).await.expect_ok()
}

#[tokio::test]
async fn a_model_finds_what_no_word_does_and_its_vectors_survive_a_restart() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let first = Arc::new(ScriptedModel::default());
    let vectors = Arc::new(SentenceVectors::new(Arc::clone(&first) as _, Arc::clone(&store)));
    let (server, ann) = server_with(Some(&vectors)).await;
    let (_control, bob) = server_with(None).await;
    // The first search does not wait for the vectors of the tools; it says that they are wanted.
    assert_eq!(search(&ann, "a+flimmer").await["model"], Value::Null);
    vectors.wait_until_wanted().await;
    vectors.embed_catalog(&server.intake.catalog()).await.unwrap();
    let found = search(&ann, "a+flimmer").await;
    assert_eq!(found["results"][0]["name"], "qwixen", "{found}");
    assert_eq!(found["model"], "scripted, 3 dimensions");
    let without = search(&bob, "a+flimmer").await;
    assert_ne!(without["results"][0]["name"], "qwixen", "control: {without}");
    assert_eq!(search(&ann, "zorblat").await["results"][0]["name"], "zorblat", "words still rank");
    // Nothing is embedded twice, neither now nor by the next process.
    vectors.embed_catalog(&server.intake.catalog()).await.unwrap();
    assert_eq!(first.embedded_tools.load(Ordering::Relaxed), 4);
    let second = Arc::new(ScriptedModel::default());
    let vectors = Arc::new(SentenceVectors::new(Arc::clone(&second) as _, store));
    vectors.load_stored().await.unwrap();
    let (server, ann) = server_with(Some(&vectors)).await;
    assert_eq!(search(&ann, "a+flimmer").await["results"][0]["name"], "qwixen");
    vectors.embed_catalog(&server.intake.catalog()).await.unwrap();
    assert_eq!(second.embedded_tools.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn a_new_tool_is_found_by_its_words_until_it_has_a_vector() {
    let model = Arc::new(ScriptedModel::default());
    let vectors =
        Arc::new(SentenceVectors::new(Arc::clone(&model) as _, Arc::new(MemoryStore::new())));
    let (server, ann) = server_with(Some(&vectors)).await;
    vectors.embed_catalog(&server.intake.catalog()).await.unwrap();
    let mut more = offers();
    more.push(tools::tool_offer(tools::test_tool("flimmer.new"), echo_executor()));
    server.replace_offers(more).await;
    let found = ann.get("/v1/search?q=flimmer+new&k=2").await.expect_ok();
    let names = [&found["results"][0]["name"], &found["results"][1]["name"]];
    assert!(names.contains(&&json!("flimmer.new")), "{found}");
    vectors.embed_catalog(&server.intake.catalog()).await.unwrap();
    assert_eq!(model.embedded_tools.load(Ordering::Relaxed), 5, "only the new one");
}

#[tokio::test]
async fn a_search_goes_on_without_a_model_that_fails() {
    let model = ScriptedModel { is_broken: true, ..ScriptedModel::default() };
    let vectors = Arc::new(SentenceVectors::new(Arc::new(model), Arc::new(MemoryStore::new())));
    let (server, ann) = server_with(Some(&vectors)).await;
    vectors.embed_catalog(&server.intake.catalog()).await.unwrap();
    let found = search(&ann, "zorblat").await;
    assert_eq!((&found["results"][0]["name"], &found["model"]), (&json!("zorblat"), &Value::Null));
}
