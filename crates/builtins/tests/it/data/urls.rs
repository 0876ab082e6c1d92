//! URLs that try to get inside, as arguments of the tools that fetch.

use serde_json::json;
use testkit::data::rows_as;

use super::table::{Family, Row, text};
use crate::stage::Stage;

pub(super) async fn run() -> Option<Family> {
    let rows = rows_as::<Row>("attacks/ssrf_urls.jsonl")?;
    let stage = Stage::new().await;
    let (mut tried, mut refused, mut naive) = (0, 0, 0);
    for row in &rows {
        let (Some(url), Some(expect)) = (text(row, "url"), text(row, "expect")) else { continue };
        if expect == "public_ip" {
            continue;
        }
        for tool in ["http_get", "http_post"] {
            let answered = stage.call(tool, &json!({ "url": url, "timeout": 5 })).await;
            tried += 1;
            refused += usize::from(answered.is_err());
        }
        naive += usize::from(expect == "block_ip" && lets_through(url));
    }
    assert_eq!(tried, refused);
    Some(Family {
        name: "addresses inside",
        tools: "http_get, http_post",
        tried,
        refused,
        // Nothing was even dialled: every name here leads inside.
        escapes: stage.dialled.count(),
        naive,
    })
}

/// What is often written instead: the host must not begin with a known word.
fn lets_through(url: &str) -> bool {
    let known = ["127.", "10.", "192.168.", "172.16.", "169.254.", "0.0.0.0", "localhost", "[::1]"];
    let host = url.split("://").nth(1).unwrap_or_default();
    url.starts_with("http") && !known.iter().any(|start| host.starts_with(start))
}
