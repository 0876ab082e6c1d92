//! URLs that try to get inside.

use std::collections::BTreeMap;

use egress::{EgressClient, EgressError, EgressOptions, RequestLimits, UrlTrust};
use serde_json::Value;
use testkit::shared_data::read_rows_as;

use crate::egress::get;
use crate::test_server::{RoutingDialer, ScriptedResolver};

/// One row: what it has depends on its family.
type Row = BTreeMap<String, Value>;

fn text<'a>(row: &'a Row, field: &str) -> &'a str {
    row.get(field).and_then(Value::as_str).unwrap_or_default()
}

/// Names with a dot that are refused by name all the same; those without one always are.
const PRIVATE_NAMES: [&str; 2] = ["metadata.google.internal", "kubernetes.default.svc"];

#[tokio::test]
async fn no_url_of_the_list_gets_inside() {
    let rows = read_rows_as::<Row>("attacks/ssrf_urls.jsonl");
    let lead = RoutingDialer::to(&[]);
    let inside = ScriptedResolver::by(|_, _| vec!["10.0.0.1".parse().unwrap()]);
    let settings =
        EgressOptions { dialer: lead.clone(), resolver: inside, ..EgressOptions::default() };
    let egress = EgressClient::new(settings).unwrap();
    let (mut blocked, mut naive, mut sent) = (0, 0, 0);
    for row in rows.iter().filter(|row| row.contains_key("url")) {
        let (url, expect) = (text(row, "url"), text(row, "expect"));
        if expect == "public_ip" {
            continue;
        }
        for class in [UrlTrust::CallArgument, UrlTrust::UpstreamResponse] {
            let early = egress.validate_url(&class, url);
            let by_name = expect == "depends_on_dns";
            assert!(
                by_name || matches!(early, Err(EgressError::Blocked { .. })),
                "{url:?}: {early:?}"
            );
            // Also as a request: in the standard writing, and as it stands where that can be a request.
            for uri in [early.ok(), url.parse().ok()].into_iter().flatten() {
                sent += 1;
                let error = egress
                    .send_request(&class, get(&uri.to_string()), RequestLimits::default())
                    .await
                    .unwrap_err();
                assert!(matches!(error, EgressError::Blocked { .. }), "{url:?}: {error}");
            }
        }
        blocked += 1;
        naive += usize::from(naive_lets_through(url) && expect == "block_ip");
    }
    println!(
        "{blocked} URLs blocked, {sent} requests tried; a check of the text lets {naive} through"
    );
    assert_eq!(lead.count(), 0);
    assert!(blocked > 400 && sent > 400, "{blocked} {sent}");
    assert!(naive > 50, "the control must fail on some rows");
}

#[tokio::test]
async fn what_is_public_can_be_called() {
    let rows = read_rows_as::<Row>("attacks/ssrf_urls.jsonl");
    let outside = ScriptedResolver::by(|_, _| vec!["93.184.216.34".parse().unwrap()]);
    let mut public = 0;
    let urls =
        rows.iter().filter(|row| ["public_ip", "depends_on_dns"].contains(&text(row, "expect")));
    let urls = urls.map(|row| text(row, "url").to_owned()).chain([
        "http://1.1.1.1/".to_owned(),
        "https://[2606:4700:4700::1111]/".to_owned(),
        "https://example.org:8443/a?b#c".to_owned(),
    ]);
    for url in urls {
        // One row is a name that the URL Standard no longer takes.
        let Ok(mut parsed) = url::Url::parse(&url) else {
            assert_eq!(url, "http://xn--localhost-/");
            continue;
        };
        parsed.set_username("").unwrap();
        parsed.set_password(None).unwrap();
        let lead = RoutingDialer::to(&[]);
        let settings = EgressOptions {
            dialer: lead.clone(),
            resolver: outside.clone(),
            ..EgressOptions::default()
        };
        let egress = EgressClient::new(settings).unwrap();
        let host = parsed.host_str().unwrap().trim_end_matches('.');
        match egress.validate_url(&UrlTrust::CallArgument, parsed.as_str()) {
            Ok(uri) => {
                let error = egress
                    .send_request(
                        &UrlTrust::CallArgument,
                        get(&uri.to_string()),
                        RequestLimits::default(),
                    )
                    .await
                    .unwrap_err();
                assert!(matches!(error, EgressError::Unreachable { .. }), "{url}: {error}");
                assert_eq!(lead.count(), 1, "{url}");
                public += 1;
            }
            Err(error) => {
                assert!(!host.contains('.') || PRIVATE_NAMES.contains(&host), "{url}: {error}");
            }
        }
    }
    assert!(public >= 10, "{public}");
}

/// What is often written instead: the text after the slashes must not begin with a known word.
fn naive_lets_through(url: &str) -> bool {
    let known = ["127.", "10.", "192.168.", "172.16.", "169.254.", "0.0.0.0", "localhost", "[::1]"];
    let host = url.split("://").nth(1).unwrap_or_default();
    url.starts_with("http") && !known.iter().any(|start| host.starts_with(start))
}
