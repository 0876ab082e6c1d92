//! Fields in which a caller says who he is.

use tool::Level;

use super::rows;
use crate::claims::{Place, changes_nothing};
use crate::support::Server;

#[tokio::test]
async fn claimed_fields_change_nothing() {
    let Some(rows) = rows("attacks/authz_cases.jsonl") else { return };
    let server = Server::new().await;
    let eve = server.agent("eve", Level::Guest).await;
    let mut tried = 0;
    for row in rows.iter().filter(|row| row["family"] == "caller-supplied-field") {
        let place = match row["case"]["place"].as_str().unwrap() {
            "top-level JSON body" => Place::RestBody,
            "query string" => Place::Query,
            "HTTP header" => Place::Header,
            "cookie" => Place::Cookie,
            "arguments object" => Place::Arguments,
            "JSON-RPC extension member" => Place::McpMember,
            "MCP params._meta" => Place::McpMeta,
            // There is no gRPC door.
            "gRPC metadata" => continue,
            other => panic!("a place that this test does not know: {other}"),
        };
        changes_nothing(&server, &eve, place, row["case"]["field"].as_str().unwrap()).await;
        tried += 1;
    }
    assert!(tried > 100, "{tried}");
}
