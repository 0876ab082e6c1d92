//! Fields in which a caller says who he is.

use proto::connect::Line;
use serde_json::json;
use testkit::data::rows;
use tool::Level;

use crate::claims::{Place, changes_nothing};
use crate::grpc::{claiming, listening};
use crate::support::{Client, Server};

#[tokio::test]
async fn claimed_fields_change_nothing() {
    let rows = rows("attacks/authz_cases.jsonl");
    let server = Server::new().await;
    let eve = server.agent("eve", Level::Guest).await;
    let (line, _stop, _tasks) = listening(&server).await;
    let (mut tried, mut grpc) = (0, 0);
    for row in rows.iter().filter(|row| row["family"] == "caller-supplied-field") {
        let place = match row["case"]["place"].as_str().unwrap() {
            "top-level JSON body" => Place::RestBody,
            "query string" => Place::Query,
            "HTTP header" => Place::Header,
            "cookie" => Place::Cookie,
            "arguments object" => Place::Arguments,
            "JSON-RPC extension member" => Place::McpMember,
            "MCP params._meta" => Place::McpMeta,
            "gRPC metadata" => {
                grpc += 1;
                changes_nothing_in_metadata(
                    &line,
                    &server,
                    &eve,
                    row["case"]["field"].as_str().unwrap(),
                )
                .await;
                continue;
            }
            other => panic!("a place that this test does not know: {other}"),
        };
        changes_nothing(&server, &eve, place, row["case"]["field"].as_str().unwrap()).await;
        tried += 1;
    }
    println!(
        "authz_cases, caller-supplied fields: {} rows tried, {grpc} of them in gRPC metadata, 0 changed a decision",
        tried + grpc
    );
    assert_eq!((tried, grpc), (162, 24));
}

/// With the claim beside the credential every decision is the one without it, and the record names the
/// key's own subject and level.
async fn changes_nothing_in_metadata(line: &Line, server: &Server, eve: &Client, field: &str) {
    let (key, before) = (eve.bearer(), server.intents().len());
    for value in ["owner", "true", "other-user"] {
        for (tool, runs) in [("needs.owner", false), ("needs.guest", true), ("dangerous", false)] {
            let call = (tool, &json!({}));
            let without = claiming(line, &key, call, &[]).await;
            assert_eq!(without.0, runs, "{tool}: {}", without.1);
            let claims = [(field, value), (&format!("x-{field}"), value)];
            let with = claiming(line, &key, call, &claims).await;
            assert_eq!(with, without, "{tool} {field} = {value}");
        }
    }
    let mut callers = server.intents().into_iter().skip(before).map(|intent| intent.caller);
    assert!(callers.all(|caller| (caller.subject.as_str(), caller.level) == ("eve", Level::Guest)));
}

/// Positive control: in the same metadata the credential counts, whatever is claimed beside it.
#[tokio::test]
async fn what_the_key_in_the_metadata_says_counts() {
    let server = Server::new().await;
    let (line, _stop, _tasks) = listening(&server).await;
    let (owner, eve) = (server.owner().await, server.agent("eve", Level::Guest).await);
    let claims = [("level", "guest"), ("user-id", "eve")];
    let call = ("needs.owner", &json!({}));
    assert!(claiming(&line, &owner.bearer(), call, &claims).await.0);
    assert!(!claiming(&line, &eve.bearer(), call, &[("level", "owner")]).await.0);
    assert_eq!(server.intents().pop().unwrap().caller.subject, "owner");
}
