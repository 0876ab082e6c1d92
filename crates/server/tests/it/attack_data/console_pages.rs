//! Attack texts in every field that a page of the console shows: they stay text, and hidden
//! characters are visible.

use serde_json::{Value, json};
use testkit::shared_data::read_rows;
use tool::SourceTrust;

use crate::approvals::ApprovalServer;
use crate::support::browser::{encode_form, percent_encode};
use crate::support::{Browser, FixtureServer, Page, ServerSetup, tools};

/// Tools per server, and texts per call.
const BATCH: usize = 100;

/// All attack texts.
fn attack_texts() -> Vec<String> {
    let naughty = read_rows("attacks/naughty_strings.jsonl").into_iter();
    let naughty = naughty.map(|row| row["value"].as_str().unwrap().to_owned());
    let poisoned = read_rows("attacks/poisoned_descriptions.jsonl").into_iter();
    let poisoned = poisoned.filter_map(|row| row["description"].as_str().map(ToOwned::to_owned));
    naughty.chain(poisoned).filter(|text| !text.is_empty()).collect()
}

/// The tags of a page with their attributes, without the marks of hidden characters and of words that
/// differ, and without the values that differ from page to page.
fn structure(page: &Page) -> Vec<String> {
    let tags = page.tags.iter().filter(|tag| !["mark", "ins", "del"].contains(&tag.name.as_str()));
    tags.map(|tag| {
        let names: Vec<_> = tag.attributes.keys().map(String::as_str).collect();
        format!("{} {}", tag.name, names.join(" "))
    })
    .collect()
}

/// Returns why a page is not as harmless as one of those with a plain text.
fn find_markup(page: &Page, plain: &[Vec<String>]) -> Option<String> {
    if !plain.contains(&structure(page)) {
        return Some("other elements".to_owned());
    }
    for tag in &page.tags {
        for (name, value) in &tag.attributes {
            let is_target = ["href", "src", "action"].contains(&name.as_str());
            if is_target && value != "#main" && value != "/ui" && !value.starts_with("/ui/") {
                return Some(format!("{} {name}={value}", tag.name));
            }
            if name.starts_with("on") || name == "style" {
                return Some(format!("{} {name}", tag.name));
            }
        }
    }
    page.text.chars().find(|c| is_hidden(*c)).map(|c| format!("hidden {c:?}"))
}

/// Characters that reverse, hide or erase text, whatever stands before them.
fn is_hidden(character: char) -> bool {
    matches!(character, '\u{200b}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
        | '\u{e0000}'..='\u{e007f}' | '\u{feff}')
        || (character.is_control() && !matches!(character, '\n' | '\r' | '\t'))
}

/// The page as one that escapes nothing would write it.
fn without_escapes(html: &str) -> Page {
    let html = html.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"");
    Page::parse(&html.replace("&#39;", "'").replace("&amp;", "&"))
}

fn tool_of(name: &str, text: &str) -> tool::Offer {
    let tool = tools::tool_with(name, |tool| {
        text.clone_into(&mut tool.description);
        tool.title = Some(text.to_owned());
        tool.input_schema = tool::Json::encode(&json!({"type": "object", "properties": {
            "a": {"type": "string", "description": text, "default": text, "enum": [text]},
            text: {"type": "object", "properties": {text: {"type": "string"}}},
        }}));
        tool.raw_definition = tool::Json::encode(&json!({"name": name, "description": text}));
    });
    tools::tool_offer(tool, testkit::executor::echo_executor())
}

#[tokio::test]
async fn attack_texts_of_tools_stay_text() {
    let texts = attack_texts();
    let (mut pages, mut active) = (0, 0);
    for batch in texts.chunks(BATCH) {
        // A page with hidden characters has a warning more, one with a large schema no JSON.
        let kinds = [("plain", "plain".to_owned()), ("marked", "m\u{200b}".to_owned())];
        let kinds = kinds.into_iter().chain([("large", "l\u{200b}".repeat(2_000))]);
        let mut offers: Vec<_> = kinds.map(|(name, text)| tool_of(name, &text)).collect();
        offers.extend(batch.iter().enumerate().map(|(n, text)| tool_of(&format!("t{n}"), text)));
        let server = FixtureServer::with_offers(offers).await;
        let owner = server.owner_client().await;
        let browser = Browser::sign_in(&server, &owner).await;
        let mut plain = Vec::new();
        for name in ["plain", "marked", "large"] {
            plain.push(structure(&browser.page(&format!("/ui/tools/{name}")).await));
        }
        for (n, attack) in batch.iter().enumerate() {
            let rest = owner.get(&format!("/v1/tools/t{n}")).await.expect_ok();
            let reply = browser.get(&format!("/ui/tools/t{n}")).await;
            let page = Page::parse(reply.text());
            let found = find_markup(&page, &plain);
            assert_eq!(found, None, "{attack:?}: {}", reply.text());
            for part in [&rest["description"], &rest["title"]] {
                assert!(page.text.contains(part.as_str().unwrap()), "{part}: {}", page.text);
            }
            pages += 1;
            active += usize::from(find_markup(&without_escapes(reply.text()), &plain).is_some());
        }
        let list = browser.get("/ui/tools").await;
        let list = Page::parse(list.text());
        assert!(find_markup(&list, &[structure(&list)]).is_none());
        assert_eq!(list.tags.iter().filter(|tag| tag.name == "script").count(), 1);
    }
    let hidden = texts.iter().filter(|text| text.chars().any(is_hidden)).count();
    println!("{pages} pages, {active} with markup if nothing were escaped, {hidden} hidden texts");
    assert!(hidden >= 20, "the control: {hidden}");
    assert!(active >= 80, "the control: {active} of {pages}");
}

#[tokio::test]
async fn attack_texts_of_calls_and_queries_stay_text() {
    let bench = ApprovalServer::new().await;
    let browser = Browser::sign_in(&bench.server, &bench.owner).await;
    let texts = attack_texts();
    // Each page compares its call with this one.
    let former = bench.pending_call(json!({"n": 1, "texts": ["former"]})).await;
    assert_eq!(browser.decide(&former, "approve", "").await.status, 303);
    bench.server.clock.advance(std::time::Duration::from_millis(1));
    // Long arguments are not edited in a page, and of inexact ones no single change is taken back.
    let (mut pending, mut plain_id) = (Vec::new(), String::new());
    for text in ["m\u{200b}".to_owned(), "l".repeat(21_000), "plain".to_owned()] {
        plain_id = bench.pending_call(json!({"n": 1, "texts": [text]})).await;
        pending.push(structure(&browser.page(&format!("/ui/approvals/{plain_id}")).await));
    }
    assert_eq!(browser.decide(&plain_id, "deny", "plain").await.status, 303);
    let denied = [structure(&browser.page(&format!("/ui/approvals/{plain_id}")).await)];
    let search = [structure(&browser.page("/ui/tools?q=nothing-has-this").await)];
    let mut active = 0;
    for (n, batch) in texts.chunks(20).enumerate() {
        if n % 30 == 0 {
            bench.server.clock.advance(std::time::Duration::from_mins(2));
        }
        let members: serde_json::Map<String, Value> =
            batch.iter().map(|t| (t.clone(), json!(t))).collect();
        let id = bench.pending_call(json!({"n": 1, "texts": members})).await;
        let path = format!("/ui/approvals/{id}");
        let reply = browser.get(&path).await;
        assert_eq!(find_markup(&Page::parse(reply.text()), &pending), None, "{}", reply.text());
        active += usize::from(find_markup(&without_escapes(reply.text()), &pending).is_some());
        let shown = bench.owner.get(&format!("/v1/approvals/{id}")).await.expect_ok();
        let text = Page::parse(reply.text()).text;
        for value in shown["arguments"]["texts"].as_object().unwrap().values() {
            // The exact JSON, with what a reader would not see in letters.
            let value = tool::Json::encode(&value.to_string());
            let value = value.escape_invisible_in_definition().unwrap_or(value);
            let value = value.string_value().unwrap();
            assert!(text.contains(&*value), "{value}: {text}");
        }
        // As the reason of a denial, which its page shows.
        let reason = &batch[0];
        assert_eq!(browser.decide(&id, "deny", reason).await.status, 303, "{reason:?}");
        let reply = browser.get(&path).await;
        assert_eq!(find_markup(&Page::parse(reply.text()), &denied), None, "{reason:?}");
    }
    assert!(active >= 10, "the control: {active}");
    for text in texts.iter().filter(|text| text.len() < 60) {
        let encoded = encode_form(&[("q", &format!("nothing-has-this {text}"))]);
        let reply =
            browser.get(&format!("/ui/tools?{}", std::str::from_utf8(&encoded).unwrap())).await;
        assert_eq!(reply.status, 200, "{text:?}");
        assert_eq!(find_markup(&Page::parse(reply.text()), &search), None, "{text:?}");
        let segment = percent_encode(text);
        for path in [
            format!("/ui/tools/{segment}"),
            format!("/ui/approvals/{segment}"),
            format!("/ui/{segment}"),
        ] {
            let reply = browser.get(&path).await;
            let page = Page::parse(reply.text());
            let scripts = page.tags.iter().filter(|tag| tag.name == "script").count();
            assert!(reply.status == 404 && scripts <= 1, "{text:?}: {}", reply.text());
            assert!(page.tags.iter().all(|tag| tag.name != "img" && tag.name != "svg"), "{text:?}");
        }
    }
}

/// Pages that show a part of their query.
#[tokio::test]
async fn attack_texts_of_filters_stay_text() {
    let server = FixtureServer::new().await;
    let owner = server.owner_client().await;
    let browser = Browser::sign_in(&server, &owner).await;
    let texts = attack_texts();
    let mut active = 0;
    for path in ["/ui/access/tools?tool", "/ui/access/decision?tool", "/ui/calls/live?tool"] {
        let plain = [structure(&browser.page(&format!("{path}=nothing-has-this")).await)];
        for text in texts.iter().filter(|text| text.len() < 60) {
            let segment = percent_encode(text);
            let reply = browser.get(&format!("{path}=nothing-has-this{segment}")).await;
            assert_eq!(reply.status, 200, "{path} {text:?}: {}", reply.text());
            assert_eq!(find_markup(&Page::parse(reply.text()), &plain), None, "{path} {text:?}");
            active += usize::from(find_markup(&without_escapes(reply.text()), &plain).is_some());
        }
    }
    assert!(active >= 10, "the control: {active}");
}

#[tokio::test]
async fn attack_texts_of_changed_definitions_stay_text() {
    let described = |name: &str, text: &str| {
        let tool = tools::tool_with(name, |tool| {
            text.clone_into(&mut tool.description);
            tool.raw_definition = tool::Json::encode(&json!({"name": name, "description": text}));
        });
        tools::tool_offer(tool, testkit::executor::echo_executor())
    };
    let (mut pages, mut active) = (0, 0);
    for batch in attack_texts().chunks(BATCH) {
        let changed = [("plain", "other"), ("marked", "m\u{200b}")].into_iter();
        let changed: Vec<_> = changed
            .map(|(name, text)| (name.to_owned(), text.to_owned()))
            .chain(batch.iter().enumerate().map(|(n, text)| (format!("t{n}"), text.clone())))
            .collect();
        let setup = ServerSetup {
            offers: changed.iter().map(|(name, _)| described(name, "A plain text.")).collect(),
            trust: Some(SourceTrust::FirstUse),
            ..ServerSetup::default()
        };
        let server = FixtureServer::with_setup(setup).await;
        let offers = changed.iter().map(|(name, text)| described(name, text));
        server.replace_offers(offers.collect()).await;
        let owner = server.owner_client().await;
        let browser = Browser::sign_in(&server, &owner).await;
        let mut plain = Vec::new();
        for (n, (name, text)) in changed.iter().enumerate() {
            let reply = browser.get(&format!("/ui/pins/s/{name}")).await;
            let page = Page::parse(reply.text());
            if n < 2 {
                assert!(page.tags.iter().any(|tag| tag.name == "ins"), "{}", reply.text());
                plain.push(structure(&page));
                continue;
            }
            assert_eq!(find_markup(&page, &plain), None, "{text:?}: {}", reply.text());
            pages += 1;
            active += usize::from(find_markup(&without_escapes(reply.text()), &plain).is_some());
        }
        let list = Page::parse(browser.get("/ui/pins").await.text());
        assert!(find_markup(&list, &[structure(&list)]).is_none());
        // As a definition that was approved, beside the one before it.
        plain.clear();
        for (n, (name, text)) in changed.iter().enumerate() {
            let pin = owner.get(&format!("/v1/pins/s/{name}")).await.expect_ok();
            let body = json!({"definition": pin["waiting"]["definition"]});
            owner.post(&format!("/v1/pins/s/{name}/approve"), &body).await.expect_ok();
            let page = Page::parse(browser.get(&format!("/ui/pins/s/{name}")).await.text());
            if n < 2 {
                assert!(page.text.contains("Earlier definitions"), "{}", page.text);
                plain.push(structure(&page));
            } else {
                assert_eq!(find_markup(&page, &plain), None, "{text:?}: {}", page.text);
            }
        }
    }
    println!("{pages} pages, {active} with markup if nothing were escaped");
    assert!(active >= 80, "the control: {active} of {pages}");
}

/// Titles and descriptions of toolsets, and definitions that wait for their owner.
#[tokio::test]
async fn attack_texts_of_toolsets_stay_text() {
    let (mut pages, mut active) = (0, 0);
    for batch in attack_texts().chunks(BATCH) {
        let kinds = [("plain", "plain".to_owned()), ("marked", "m\u{200b}".to_owned())];
        let kinds: Vec<_> = kinds
            .into_iter()
            .map(|(name, text)| (name.to_owned(), text))
            .chain(batch.iter().enumerate().map(|(n, text)| (format!("t{n}"), text.clone())))
            .collect();
        let setup = ServerSetup {
            offers: kinds.iter().map(|(name, text)| tool_of(name, text)).collect(),
            trust: Some(SourceTrust::Full),
            ..ServerSetup::default()
        };
        let server = FixtureServer::with_setup(setup).await;
        let owner = server.owner_client().await;
        let browser = Browser::sign_in(&server, &owner).await;
        let mut plain = Vec::new();
        for (n, (name, text)) in kinds.iter().enumerate() {
            // Created with no tool, so that the one that comes later waits.
            let mut body = json!({"title": text, "description": text, "roles": ["r"], "tools": []});
            let created = owner.put(&format!("/v1/toolsets/set-{name}"), &body).await;
            if created.status != 200 {
                // Limits of a title are the interface's, not the page's.
                body["title"] = json!("t");
                body["description"] = json!("d");
                owner.put(&format!("/v1/toolsets/set-{name}"), &body).await.expect_ok();
            }
            body["tools"] = json!([name]);
            owner.put(&format!("/v1/toolsets/set-{name}"), &body).await.expect_ok();
            let reply = browser.get(&format!("/ui/toolsets/set-{name}")).await;
            let page = Page::parse(reply.text());
            if n < 2 {
                assert!(page.hidden_field("revision").is_some(), "{}", reply.text());
                plain.push(structure(&page));
                continue;
            }
            if page.hidden_field("revision").is_some() {
                assert_eq!(find_markup(&page, &plain), None, "{text:?}: {}", reply.text());
            }
            pages += 1;
            active += usize::from(find_markup(&without_escapes(reply.text()), &plain).is_some());
        }
        let list = Page::parse(browser.get("/ui/toolsets").await.text());
        assert!(find_markup(&list, &[structure(&list)]).is_none());
    }
    println!("{pages} pages, {active} with markup if nothing were escaped");
    assert!(active >= 80, "the control: {active} of {pages}");
}
