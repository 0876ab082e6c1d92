//! Tests of the Host and Origin checks with raw requests.

use testkit::shared_data::read_rows;
use tool::PermissionLevel;

use super::{bytes, with_key};
use crate::support::FixtureServer;
use crate::support::client::send_raw;
use crate::support::test_server::serve_on_free_port;

#[tokio::test]
async fn foreign_hosts_and_origins_are_refused() {
    let rows = read_rows("attacks/http_framing.jsonl");
    let server = FixtureServer::new().await;
    let ann = server.agent_client("ann", PermissionLevel::User).await;
    // Positive control: the same listener without the check takes every one of these requests.
    let naive = axum::Router::new().fallback(|| async { "ok" });
    let (naive, stop, _) = serve_on_free_port(naive).await;
    let (mut refused, mut taken) = (0, 0);
    for row in rows {
        let name = row["name"].as_str().unwrap();
        if !name.starts_with("origin-") && !name.starts_with("host-") {
            continue;
        }
        let request = bytes(&row);
        let keyed = with_key(&request, &ann.authorization_line());
        assert_eq!(send_raw(naive, &keyed).await, "HTTP/1.1 200 OK", "{name}");
        let status = send_raw(server.address, &keyed).await;
        let full = String::from_utf8_lossy(&request).contains("Accept:");
        match row["expect"].as_str().unwrap() {
            expect if expect.starts_with("403") && !expect.contains("or ok") => {
                assert_eq!(status, "HTTP/1.1 403 Forbidden", "{name}");
                assert_eq!(send_raw(server.address, &request).await, "HTTP/1.1 403 Forbidden");
                refused += 1;
            }
            expect if expect.starts_with("allowed") || expect == "ok" => {
                // Requests without an Accept header are admitted, and get an error about it.
                let good = if full { "HTTP/1.1 200 OK" } else { "HTTP/1.1 406 Not Acceptable" };
                assert_eq!(status, good, "{name}");
                assert_eq!(send_raw(server.address, &request).await, "HTTP/1.1 401 Unauthorized");
                taken += 1;
            }
            // Left to the server: any port of an allowed host, and no origin of another port.
            _ if name.starts_with("host-") => assert!(!status.contains("403"), "{name}: {status}"),
            _ => assert_eq!(status, "HTTP/1.1 403 Forbidden", "{name}"),
        }
    }
    assert!(refused >= 4 && taken >= 4, "{refused} refused, {taken} taken");
    stop.cancel();
}
