//! Tests of request fields that claim another identity.

use proto::client::GrpcChannel;
use serde_json::json;
use testkit::shared_data::read_rows;
use tool::PermissionLevel;

use crate::claimed_identity::{ClaimPlace, assert_ignored};
use crate::grpc::{call_with_claims, connect_grpc};
use crate::support::{Client, FixtureServer};

#[tokio::test]
async fn claimed_fields_change_nothing() {
    let rows = read_rows("attacks/authz_cases.jsonl");
    let server = FixtureServer::new().await;
    let eve = server.agent_client("eve", PermissionLevel::Guest).await;
    let (line, _stop, _tasks) = connect_grpc(&server).await;
    let (mut tried, mut grpc) = (0, 0);
    for row in rows.iter().filter(|row| row["family"] == "caller-supplied-field") {
        let place = match row["case"]["place"].as_str().unwrap() {
            "top-level JSON body" => ClaimPlace::RestBody,
            "query string" => ClaimPlace::Query,
            "HTTP header" => ClaimPlace::Header,
            "cookie" => ClaimPlace::Cookie,
            "arguments object" => ClaimPlace::Arguments,
            "JSON-RPC extension member" => ClaimPlace::McpMember,
            "MCP params._meta" => ClaimPlace::McpMeta,
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
        assert_ignored(&server, &eve, place, row["case"]["field"].as_str().unwrap()).await;
        tried += 1;
    }
    println!(
        "authz_cases, caller-supplied fields: {} rows tried, {grpc} of them in gRPC metadata, 0 changed a decision",
        tried + grpc
    );
    assert_eq!((tried, grpc), (162, 24));
}

/// A claim beside the credential changes no decision, and the record names the key's own subject
/// and level.
async fn changes_nothing_in_metadata(
    line: &GrpcChannel,
    server: &FixtureServer,
    eve: &Client,
    field: &str,
) {
    let (key, before) = (eve.bearer(), server.recorded_intents().len());
    for value in ["owner", "true", "other-user"] {
        for (tool, runs) in [("needs.owner", false), ("needs.guest", true), ("dangerous", false)] {
            let call = (tool, &json!({}));
            let without = call_with_claims(line, &key, call, &[]).await;
            assert_eq!(without.0, runs, "{tool}: {}", without.1);
            let claims = [(field, value), (&format!("x-{field}"), value)];
            let with = call_with_claims(line, &key, call, &claims).await;
            assert_eq!(with, without, "{tool} {field} = {value}");
        }
    }
    let mut callers =
        server.recorded_intents().into_iter().skip(before).map(|intent| intent.caller);
    assert!(
        callers.all(
            |caller| (caller.subject.as_str(), caller.level) == ("eve", PermissionLevel::Guest)
        )
    );
}

/// Positive control: in the same metadata the credential counts, whatever is claimed with it.
#[tokio::test]
async fn what_the_key_in_the_metadata_says_counts() {
    let server = FixtureServer::new().await;
    let (line, _stop, _tasks) = connect_grpc(&server).await;
    let (owner, eve) =
        (server.owner_client().await, server.agent_client("eve", PermissionLevel::Guest).await);
    let claims = [("level", "guest"), ("user-id", "eve")];
    let call = ("needs.owner", &json!({}));
    assert!(call_with_claims(&line, &owner.bearer(), call, &claims).await.0);
    assert!(!call_with_claims(&line, &eve.bearer(), call, &[("level", "owner")]).await.0);
    assert_eq!(server.recorded_intents().pop().unwrap().caller.subject, "owner");
}
