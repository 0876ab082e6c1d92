//! The console shows and refuses random principals what REST shows and refuses them.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::matrix_fixture::Fixture;
use super::model::{MODEL_TOOLS, Person, RandomSource};
use crate::support::browser::send_key;
use crate::support::{Browser, Client, Page};

/// Pages and the REST requests with the same content.
const PAGES: [(&str, &str); 24] = [
    ("/ui", "/v1/attention"),
    ("/ui/access", "/v1/keys"),
    ("/ui/access/orgs", "/v1/orgs"),
    ("/ui/access/personas", "/v1/personas"),
    ("/ui/access/roles", "/v1/roles"),
    ("/ui/access/tools", "/v1/access"),
    ("/ui/access/users", "/v1/users"),
    ("/ui/approvals?state=all", "/v1/approvals?state=all"),
    ("/ui/calls", "/v1/records"),
    ("/ui/calls/export", "/v1/records/export"),
    ("/ui/calls/live", "/v1/records"),
    ("/ui/nodes", "/v1/nodes"),
    ("/ui/pins", "/v1/pins?state=waiting"),
    ("/ui/pins/s/s.look", "/v1/pins/s/s.look"),
    ("/ui/pins/s/none", "/v1/pins/s/none"),
    ("/ui/plugins", "/v1/plugins"),
    ("/ui/plugins/notes", "/v1/plugins/notes/settings"),
    ("/ui/record", "/v1/records/storage"),
    ("/ui/sources", "/v1/sources"),
    ("/ui/sources/s/tools", "/v1/sources/s/tools"),
    ("/ui/tools", "/v1/tools"),
    ("/ui/toolsets", "/v1/toolsets"),
    ("/ui/toolsets/none", "/v1/toolsets/none"),
    ("/ui/toolsets/readers", "/v1/toolsets/readers"),
];

/// Number of principals: 100, or 1,000 where `TOOLKEEP_DEEP` is set.
fn people_count() -> usize {
    if std::env::var_os("TOOLKEEP_DEEP").is_some() { 1_000 } else { 100 }
}

/// The paths of the entries that a list should have, from the same list over REST.
fn expected_entries(path: &str, list: &Value) -> Option<Vec<String>> {
    let (key, name, prefix) = match path {
        "/ui/approvals?state=all" => ("approvals", "id", "/ui/approvals/"),
        "/ui/tools" => ("tools", "name", "/ui/tools/"),
        "/ui/pins" => ("pins", "tool", "/ui/pins/s/"),
        "/ui/toolsets" => ("toolsets", "name", "/ui/toolsets/"),
        _ => return None,
    };
    let entries = list[key].as_array().unwrap().iter();
    Some(entries.map(|entry| format!("{prefix}{}", entry[name].as_str().unwrap())).collect())
}

/// Adds a toolset that one role may use, and one for everybody.
async fn add_toolsets(fixture: &Fixture) {
    let owner = fixture.server.owner_client().await;
    for (name, role) in [("readers", "reader"), ("everybody", "*")] {
        let body = json!({"tools": ["s.*"], "roles": [role]});
        owner.put(&format!("/v1/toolsets/{name}"), &body).await.expect_ok();
    }
}

/// Compares one page with its twin, and returns the status of both.
async fn compare(browser: &Browser, client: &Client, (page, twin): (&str, &str)) -> u16 {
    let (shown, rest) = (browser.get(page).await, client.get(twin).await);
    assert_eq!(shown.status, rest.status, "{page}: {}", shown.text());
    // A file of lines is no list.
    if rest.status == 200
        && page != "/ui/calls/export"
        && let Some(expected) = expected_entries(page, &rest.json())
    {
        let mut entries = Page::parse(shown.text()).entries().join("\n");
        // A source of a node has another prefix.
        if page == "/ui/pins" {
            entries = entries.replace("/ui/pins/r/", "/ui/pins/s/");
        }
        assert_eq!(entries, expected.join("\n"), "{page}");
    }
    rest.status.as_u16()
}

#[tokio::test]
async fn the_console_gives_random_principals_what_rest_gives_them() {
    let fixture = Fixture::new().await;
    add_toolsets(&fixture).await;
    let mut dice = RandomSource(0x5eed_c0de);
    let (mut statuses, mut signed_in) = (BTreeMap::<(&str, u16), usize>::new(), 0);
    for number in 0..people_count() {
        let person = Person::random(&mut dice, number);
        let client = fixture.client(&person).await;
        let origin = format!("http://{}", fixture.server.address);
        let key = client.bearer().strip_prefix("Bearer ").unwrap().to_owned();
        let reply = send_key(&fixture.server.keyless_client(), &origin, &key, "").await;
        if client.get("/v1/tools").await.status == 401 {
            assert_ne!(reply.status, 303, "a key that opens nothing opens no page: {person:?}");
            continue;
        }
        let browser = Browser::sign_in(&fixture.server, &client).await;
        signed_in += 1;
        for pair in PAGES {
            *statuses.entry((pair.0, compare(&browser, &client, pair).await)).or_default() += 1;
        }
        let tool = MODEL_TOOLS[dice.below(MODEL_TOOLS.len())].name;
        let (page, twin) = (format!("/ui/tools/{tool}"), format!("/v1/tools/{tool}"));
        let status = compare(&browser, &client, (&page, &twin)).await;
        *statuses.entry(("/ui/tools/{name}", status)).or_default() += 1;
    }
    println!("{signed_in} principals, {statuses:?}");
    // The control: each page that rights decide about was shown to some and refused to others.
    for page in [
        "/ui/access",
        "/ui/access/orgs",
        "/ui/access/personas",
        "/ui/access/roles",
        "/ui/pins",
        "/ui/calls",
        "/ui/record",
    ] {
        for status in [200, 403] {
            assert!(statuses.contains_key(&(page, status)), "{page} was never {status}");
        }
    }
    for (page, status) in
        [("/ui/tools/{name}", 404), ("/ui/toolsets/readers", 200), ("/ui/toolsets/readers", 404)]
    {
        assert!(statuses.contains_key(&(page, status)), "{page} was never {status}");
    }
    assert!(signed_in * 10 > people_count() * 7, "{signed_in}");
}
