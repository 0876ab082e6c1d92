//! SSRF attacks: URLs of internal addresses, as arguments of the fetching tools.

use std::net::{IpAddr, TcpListener, TcpStream};

use serde_json::json;
use testkit::shared_data::read_rows_as;

use super::table::{Family, Row, text};
use crate::stage::Stage;

pub(super) async fn run() -> Family {
    let rows = read_rows_as::<Row>("attacks/ssrf_urls.jsonl");
    let stage = Stage::new().await;
    let inside = TcpListener::bind(("127.0.0.1", 0)).unwrap();
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
        naive += usize::from(lets_through(url) && arrives(url, &inside));
    }
    assert_eq!(tried, refused);
    Family {
        name: "addresses inside",
        tools: "http_get, http_post",
        control: "a list of forbidden beginnings lets the URL pass, and the connection arrives at a listener on loopback",
        tried,
        refused,
        // No connection was attempted: every name here resolves to an internal address.
        escapes: stage.dialled.count(),
        naive,
    }
}

/// Whether a connection to the URL's host arrives at `inside`, with the port replaced by the
/// listener's. Only loopback addresses are dialled, in any notation.
fn arrives(url: &str, inside: &TcpListener) -> bool {
    let host = url::Url::parse(url).ok().and_then(|url| url.host().map(|host| host.to_owned()));
    let address = match host {
        Some(url::Host::Ipv4(it)) => it,
        Some(url::Host::Ipv6(it)) => match it.to_ipv4_mapped() {
            Some(it) => it,
            None => return false,
        },
        _ => return false,
    };
    // On Linux a connection to 0.0.0.0 also reaches this machine.
    if !address.is_loopback() && !address.is_unspecified() {
        return false;
    }
    let port = inside.local_addr().unwrap().port();
    if !address.is_unspecified() && address.octets() != [127, 0, 0, 1] {
        return false;
    }
    let dialled = TcpStream::connect((IpAddr::V4(address), port)).unwrap();
    inside.accept().unwrap().1 == dialled.local_addr().unwrap()
}

/// Common weak check: the host must not begin with a listed prefix.
fn lets_through(url: &str) -> bool {
    let known = ["127.", "10.", "192.168.", "172.16.", "169.254.", "0.0.0.0", "localhost", "[::1]"];
    let host = url.split("://").nth(1).unwrap_or_default();
    url.starts_with("http") && !known.iter().any(|start| host.starts_with(start))
}
