//! Tests of pages of prompts, resources, templates and skills: together they are the list, and each
//! begins behind the item that its cursor names.

use serde_json::{Value, json};
use tool::{Offer, PermissionLevel};

use super::all_sources::{asked, methods};
use crate::support::{Client, FixtureServer, ServerSetup, tools};

/// Items of each kind of one source: more than a page has.
const ITEMS: usize = 1_100;
/// Of the resources, those that both sources list.
const SHARED: usize = 300;

/// The lists, with the member of the result and what names an item.
const LISTS: [(&str, &str, &str); 4] = [
    ("prompts/list", "prompts", "name"),
    ("resources/list", "resources", "uri"),
    ("resources/templates/list", "resourceTemplates", "uriTemplate"),
    ("skills/list", "skills", "uri"),
];

/// The URI of a resource at its source: the last ones are shared, and every other one of those has no
/// scheme.
fn own_uri(source: &str, number: usize) -> String {
    let scheme = if number < ITEMS - SHARED { source } else { "test" };
    let is_bare = number >= ITEMS - SHARED && number % 2 == 1;
    if is_bare { format!("r/{number:04}") } else { format!("{scheme}://r/{number:04}") }
}

/// Templates and resources in turn, as a source may list them.
fn offers(source: &'static str) -> Vec<Offer> {
    let mut offers = methods(source, PermissionLevel::Guest);
    for number in 0..ITEMS {
        offers.push(tools::prompt_offer_of(source, &json!({"name": format!("p{number:04}")})));
        let template = format!("{source}://t/{number:04}/{{id}}");
        offers.push(tools::resource_offer(&json!({"uriTemplate": template, "name": "t"})));
        offers.push(tools::resource_offer(&json!({"uri": own_uri(source, number), "name": "r"})));
        offers.push(tools::skill_offer(&format!("skill://{source}{number:04}"), "d", &[]));
    }
    offers
}

/// What a source has in a list, by the names at `/mcp/{source}` or, qualified, at `/mcp`.
fn expected(list: &str, source: &str, is_qualified: bool) -> Vec<String> {
    let name = |number: usize| match list {
        "prompts/list" if is_qualified => format!("{source}.p{number:04}"),
        "prompts/list" => format!("p{number:04}"),
        "resources/list" if is_qualified && number >= ITEMS - SHARED => {
            format!("{source}+{}", own_uri(source, number))
        }
        "resources/list" => own_uri(source, number),
        "skills/list" => format!("skill://{source}{number:04}/SKILL.md"),
        _ => format!("{source}://t/{number:04}/{{id}}"),
    };
    (0..ITEMS).map(name).collect()
}

async fn page(client: &Client, method: &str, cursor: Option<&str>) -> Value {
    let params = cursor.map_or_else(|| json!({}), |cursor| json!({"cursor": cursor}));
    asked(client, method, params).await
}

/// The names on each page.
async fn pages(client: &Client, (method, member, key): (&str, &str, &str)) -> Vec<Vec<String>> {
    let (mut pages, mut cursor) = (Vec::new(), None);
    loop {
        let page = page(client, method, cursor.as_deref()).await;
        let items = page["result"][member].as_array().unwrap_or_else(|| panic!("{method}: {page}"));
        pages.push(items.iter().map(|it| it[key].as_str().unwrap().to_owned()).collect());
        let Some(next) = page["result"]["nextCursor"].as_str() else { return pages };
        cursor = Some(next.to_owned());
    }
}

#[tokio::test]
async fn pages_of_each_list_together_are_the_list() {
    let server = FixtureServer::with_setup(ServerSetup {
        offers: methods("s", PermissionLevel::Guest),
        kind: Some("mcp"),
        ..ServerSetup::default()
    })
    .await;
    for source in ["one", "two"] {
        server.add_mcp_source(source, offers(source)).await;
    }
    let ann = server.agent_client("ann", PermissionLevel::User).await;
    for list in LISTS {
        let found = pages(&ann, list).await;
        let sizes: Vec<_> = found.iter().map(Vec::len).collect();
        assert_eq!(sizes, [1_000, 1_000, 200], "{}", list.0);
        let both = [expected(list.0, "one", true), expected(list.0, "two", true)].concat();
        assert!(found.concat() == both, "{}", list.0);
        for source in ["one", "two"] {
            let found = pages(&ann.with_endpoint(&format!("/mcp/{source}")), list).await;
            assert_eq!(found.len(), 2, "{}", list.0);
            assert!(found.concat() == expected(list.0, source, false), "{} of {source}", list.0);
        }
    }
    // A list of tools of one source has those of no other, whichever cursor it gets.
    let tools = page(&ann.with_endpoint("/mcp/one"), "tools/list", None).await;
    assert_eq!(tools["result"]["tools"], json!([]));
}

/// A cursor names an item that the caller sees in this list; any other is refused in the same words.
#[tokio::test]
async fn a_cursor_of_no_visible_item_is_refused() {
    let server = FixtureServer::with_setup(ServerSetup {
        offers: methods("s", PermissionLevel::Guest),
        kind: Some("mcp"),
        ..ServerSetup::default()
    })
    .await;
    let mut hidden = methods("hidden", PermissionLevel::Owner);
    let mut seen = methods("seen", PermissionLevel::Guest);
    for (source, offers) in [("hidden", &mut hidden), ("seen", &mut seen)] {
        offers.push(tools::prompt_offer_of(source, &json!({"name": "p"})));
        offers.push(tools::resource_offer(&json!({"uri": format!("{source}://r"), "name": "r"})));
        let template = json!({"uriTemplate": format!("{source}://{{id}}"), "name": "t"});
        offers.push(tools::resource_offer(&template));
        offers.push(tools::skill_offer(&format!("skill://{source}"), "d", &[]));
    }
    server.add_mcp_source("hidden", hidden).await;
    server.add_mcp_source("seen", seen).await;
    let ann = server.agent_client("ann", PermissionLevel::User).await;
    let owner = server.owner_client().await;
    for (method, member, of_seen) in [
        ("prompts/list", "prompts", "seen.p"),
        ("resources/list", "resources", "seen://r"),
        ("resources/templates/list", "resourceTemplates", "seen://{id}"),
        ("skills/list", "skills", "seen skill://seen/SKILL.md"),
    ] {
        // The control: the cursor of a visible item leads behind it, for both callers.
        let rest = page(&ann, method, Some(of_seen)).await;
        assert_eq!(rest["result"][member], json!([]), "{method}: {rest}");
        let of_hidden = of_seen.replace("seen", "hidden");
        let rest = page(&owner, method, Some(&of_hidden)).await;
        assert_eq!(rest["result"][member].as_array().map(Vec::len), Some(1), "{method}: {rest}");
        let mut refused = Vec::new();
        for cursor in [of_hidden.as_str(), &of_seen.replace("seen", "nobody"), "", "x"] {
            refused.push(page(&ann, method, Some(cursor)).await["error"].to_string());
        }
        assert!(refused[0].contains("no longer exists"), "{refused:?}");
        assert!(refused.iter().all(|it| *it == refused[0]), "{method}: {refused:?}");
    }
    // A resource is no template, and the other way round.
    for (method, cursor) in
        [("resources/list", "seen://{id}"), ("resources/templates/list", "seen://r")]
    {
        let refused = page(&ann, method, Some(cursor)).await;
        assert_eq!(refused["error"]["code"], -32_602, "{method}: {refused}");
    }
}
