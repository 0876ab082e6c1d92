//! Tests that poisoned texts of prompts, user interfaces and skills stay data, in lists and in what is read.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use testkit::shared_data::read_rows;
use tool::{CatalogItem, Json, Offer, PermissionLevel};

use crate::mcp::all_sources::{answering, method_for};
use crate::support::client::{Reply, message};
use crate::support::{Client, FixtureServer, ServerSetup, tools};

const CONTROL: &str = "The weather in Paris is fine.";
const INTERFACE: &str = "ui://app/main.html";

/// The text that the source answers with.
type SpokenText = Arc<Mutex<String>>;

/// A source whose prompts, user interface and skills have the texts of `listed`, and that answers with the
/// spoken text.
fn offers(listed: &[String], spoken: &SpokenText) -> Vec<Offer> {
    let (of_prompt, of_resource) = (Arc::clone(spoken), Arc::clone(spoken));
    let prompt = answering(move |_| {
        let text = of_prompt.lock().unwrap().clone();
        let content = json!({"type": "text", "text": text});
        json!({"description": text, "messages": [{"role": "user", "content": content}]})
    });
    let resource = answering(move |params| {
        let text = of_resource.lock().unwrap().clone();
        json!({"contents": [{"uri": params["uri"], "mimeType": "text/html", "text": text}]})
    });
    let method = |name, executor| method_for(name, executor, PermissionLevel::Guest);
    let mut offers =
        vec![method("mcp.prompts.get", prompt), method("mcp.resources.read", resource)];
    for (number, text) in listed.iter().enumerate() {
        let (prompt, link) = (format!("p{number}"), format!("ui://app/{number}"));
        offers.push(tools::prompt_offer_of("s", &json!({"name": prompt, "description": text})));
        offers.push(tools::resource_offer(&json!({"uri": link, "name": "r", "description": text})));
        offers.push(skill_of(number, text));
    }
    offers.push(tools::prompt_offer_of("s", &json!({"name": "greet"})));
    offers.push(tools::resource_offer(&json!({"uri": INTERFACE, "name": "main"})));
    offers
}

fn skill_of(number: usize, description: &str) -> Offer {
    let uri = format!("skill://row{number}/SKILL.md");
    let digest = tool::Digest([7; 32]);
    let listed = json!([{"uri": uri, "digest": digest.to_string(), "size": 1}]);
    let frontmatter = json!({"name": format!("row{number}"), "description": description});
    let entry = json!({"uri": uri, "frontmatter": frontmatter, "resources": listed});
    let files = vec![tool::SkillFile { uri: uri.clone(), digest, size: 1 }];
    let skill = tool::Skill { uri, files: Some(files), raw_definition: Json::encode(&entry) };
    Offer { item: CatalogItem::Skill(skill), executor: testkit::executor::echo_executor() }
}

/// The answers of both eras at the endpoint of all sources and at that of the source.
async fn answers_at_each_endpoint(client: &Client, method: &str, params: Value) -> Vec<Reply> {
    let mut replies = Vec::new();
    for endpoint in ["/mcp", "/mcp/s"] {
        let mut params = params.clone();
        if let Some(name) = params["name"].as_str().filter(|_| endpoint == "/mcp") {
            params["name"] = json!(format!("s.{name}"));
        }
        let client = client.with_endpoint(endpoint);
        replies.push(client.legacy_request(&message(method, params.clone())).await);
        replies.push(client.modern_request(method, params).await);
    }
    replies
}

/// The texts of an answer, which is one message, with the names of its headers.
fn texts_of(reply: &Reply) -> (Vec<String>, Vec<String>) {
    let [answer] = reply.messages().try_into().expect("one message and no other");
    let result = &answer["result"];
    let texts = [
        &result["description"],
        &result["messages"][0]["content"]["text"],
        &result["contents"][0]["text"],
    ];
    let texts = texts.iter().filter_map(|it| it.as_str()).map(str::to_owned).collect();
    (texts, reply.headers.keys().map(ToString::to_string).collect())
}

/// The control is a harmless text, which comes in the same form.
#[tokio::test]
async fn poisoned_texts_of_prompts_and_interfaces_are_only_data() {
    let rows = read_rows("attacks/poisoned_results.jsonl");
    let spoken = SpokenText::default();
    let setup =
        ServerSetup { offers: offers(&[], &spoken), kind: Some("mcp"), ..ServerSetup::default() };
    let server = FixtureServer::with_setup(setup).await;
    let ann = server.agent_client("ann", PermissionLevel::User).await;
    let requests =
        [("prompts/get", json!({"name": "greet"})), ("resources/read", json!({"uri": INTERFACE}))];
    for (method, params) in requests {
        CONTROL.clone_into(&mut spoken.lock().unwrap());
        let control = answers_at_each_endpoint(&ann, method, params.clone()).await;
        let control: Vec<_> = control.iter().map(texts_of).collect();
        assert!(control.iter().all(|(texts, _)| !texts.is_empty()));
        assert!(control.iter().flat_map(|(texts, _)| texts).all(|text| text == CONTROL));
        for row in &rows {
            let text = row["result_text"].as_str().unwrap();
            text.clone_into(&mut spoken.lock().unwrap());
            let replies = answers_at_each_endpoint(&ann, method, params.clone()).await;
            for (reply, (usual_texts, usual_headers)) in replies.iter().zip(&control) {
                let (texts, headers) = texts_of(reply);
                assert_eq!(&headers, usual_headers, "{}", row["id"]);
                assert_eq!(texts.len(), usual_texts.len(), "{}", row["id"]);
                for seen in texts {
                    assert_is_data(&seen, text, &row["id"]);
                }
            }
        }
        assert!(!rows.is_empty());
    }
}

/// Asserts that a text arrived as it was sent, or with its hidden characters shown or its secrets removed.
fn assert_is_data(seen: &str, sent: &str, row: &Value) {
    let shown = Json::encode(sent).escape_invisible().map(|json| json.decode::<String>().unwrap());
    let is_redacted = seen.contains("[REDACTED:");
    assert!(seen == sent || Some(seen) == shown.as_deref() || is_redacted, "{row}: {seen}");
}

#[tokio::test]
async fn poisoned_texts_of_listed_items_are_only_data() {
    let rows = read_rows("attacks/poisoned_results.jsonl");
    let texts: Vec<_> =
        rows.iter().map(|row| row["result_text"].as_str().unwrap().to_owned()).collect();
    let setup = ServerSetup {
        offers: offers(&texts, &SpokenText::default()),
        kind: Some("mcp"),
        ..ServerSetup::default()
    };
    let server = FixtureServer::with_setup(setup).await;
    let ann = server.agent_client("ann", PermissionLevel::User).await;
    let lists =
        [("prompts/list", "prompts"), ("resources/list", "resources"), ("skills/list", "skills")];
    for (method, member) in lists {
        for reply in answers_at_each_endpoint(&ann, method, json!({})).await {
            let [answer] = reply.messages().try_into().expect("one message and no other");
            let items = answer["result"][member].as_array().unwrap();
            let descriptions = items.iter().filter_map(|it| {
                it["description"].as_str().or_else(|| it["frontmatter"]["description"].as_str())
            });
            let descriptions: Vec<_> = descriptions.collect();
            assert_eq!(descriptions.len(), rows.len(), "{method}");
            for ((seen, sent), row) in descriptions.iter().zip(&texts).zip(&rows) {
                assert_is_data(seen, sent, &row["id"]);
            }
        }
    }
}
