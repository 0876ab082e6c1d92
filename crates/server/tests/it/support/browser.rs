//! A browser of the console without a window: cookies, origins, forms, and pages as a parser reads
//! them.

use std::collections::BTreeMap;

use bytes::Bytes;
use html5gum::{Token, Tokenizer};
use hyper::Method;

use super::client::MessageStream;
use super::{Client, FixtureServer, Reply};

/// A signed-in browser.
#[derive(Debug, Clone)]
pub(crate) struct Browser {
    client: Client,
    /// The origin of the console.
    pub(crate) origin: String,
    /// The session's cookie, as `NAME=VALUE`.
    pub(crate) cookie: String,
}

/// A start tag and its attributes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Tag {
    pub(crate) name: String,
    pub(crate) attributes: BTreeMap<String, String>,
}

/// A page as a parser reads it.
#[derive(Debug)]
pub(crate) struct Page {
    pub(crate) tags: Vec<Tag>,
    pub(crate) text: String,
}

impl Page {
    pub(crate) fn parse(html: &str) -> Self {
        let (mut tags, mut text) = (Vec::new(), String::new());
        let string = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        for token in Tokenizer::new(html) {
            match token.unwrap() {
                Token::StartTag(tag) => {
                    let attributes = tag.attributes.iter();
                    let attributes = attributes.map(|(k, v)| (string(k), string(v))).collect();
                    tags.push(Tag { name: string(&tag.name), attributes });
                }
                Token::String(part) => text.push_str(&string(&part)),
                Token::EndTag(_) | Token::Comment(_) | Token::Doctype(_) | Token::Error(_) => {}
            }
        }
        Self { tags, text }
    }

    /// The values of an attribute, in order.
    pub(crate) fn values_of(&self, attribute: &str) -> Vec<&str> {
        self.tags.iter().filter_map(|tag| Some(tag.attributes.get(attribute)?.as_str())).collect()
    }

    /// The value of the first hidden field of this name.
    pub(crate) fn hidden_field(&self, name: &str) -> Option<&str> {
        let field = self.tags.iter().find(|tag| {
            tag.name == "input" && tag.attributes.get("name").is_some_and(|it| it == name)
        })?;
        Some(field.attributes.get("value")?)
    }

    /// The targets of links that open an entry of a list.
    pub(crate) fn entries(&self) -> Vec<&str> {
        let entries = self.tags.iter().filter(|tag| tag.attributes.contains_key("data-open"));
        entries.map(|tag| tag.attributes["href"].as_str()).collect()
    }
}

/// The first part of the `Set-Cookie` headers that store a value.
pub(crate) fn stored_cookies(reply: &Reply) -> Vec<String> {
    let all = reply.headers.get_all("set-cookie").iter().map(|line| line.to_str().unwrap());
    let stored = all.filter(|line| !line.contains("Max-Age=0"));
    stored.map(|line| line.split(';').next().unwrap().to_owned()).collect()
}

/// Encodes every byte of a text.
pub(crate) fn percent_encode(text: &str) -> String {
    text.bytes().flat_map(|byte| format!("%{byte:02X}").into_bytes()).map(char::from).collect()
}

/// Encodes the fields of a form.
pub(crate) fn encode_form(fields: &[(&str, &str)]) -> Bytes {
    let pair = |(name, value): &(&str, &str)| {
        format!("{}={}", percent_encode(name), percent_encode(value))
    };
    let pairs = fields.iter().map(pair);
    Bytes::from(pairs.collect::<Vec<_>>().join("&"))
}

/// Loads the sign-in page and sends its form with this key, from this origin.
pub(crate) async fn send_key(client: &Client, origin: &str, key: &str, next: &str) -> Reply {
    let page = client.get("/ui/sign-in").await;
    let token = Page::parse(page.text()).hidden_field("form_token").unwrap().to_owned();
    let fields = [("form_token", token.as_str()), ("key", key), ("next", next)];
    client
        .with_header("cookie", &stored_cookies(&page)[0])
        .with_header("origin", origin)
        .with_header("content-type", "application/x-www-form-urlencoded")
        .send(Method::POST, "/ui/sign-in", encode_form(&fields))
        .await
}

impl Browser {
    /// Signs in with the key of a client.
    pub(crate) async fn sign_in(server: &FixtureServer, client: &Client) -> Self {
        let (keyless, origin) = (server.keyless_client(), format!("http://{}", server.address));
        let bearer = client.bearer();
        let key = bearer.strip_prefix("Bearer ").unwrap();
        let reply = send_key(&keyless, &origin, key, "").await;
        assert_eq!(reply.status, 303, "{}", reply.text());
        let cookie = stored_cookies(&reply).remove(0);
        Self { client: keyless, origin, cookie }
    }

    /// A browser with the session that this reply has set.
    pub(crate) fn from_reply(server: &FixtureServer, reply: &Reply) -> Self {
        let (client, origin) = (server.keyless_client(), format!("http://{}", server.address));
        Self { client, origin, cookie: stored_cookies(reply).remove(0) }
    }

    /// The same browser without its cookie.
    pub(crate) fn without_cookie(&self) -> Self {
        Self { cookie: String::new(), ..self.clone() }
    }

    pub(crate) async fn get(&self, path: &str) -> Reply {
        self.client.with_header("cookie", &self.cookie).get(path).await
    }

    /// Opens a stream of events.
    pub(crate) async fn open_stream(&self, path: &str) -> MessageStream {
        let client = self.client.with_header("cookie", &self.cookie).with_endpoint(path);
        client.open_stream(Method::GET, Bytes::new(), &[]).await
    }

    /// A page that is there.
    pub(crate) async fn page(&self, path: &str) -> Page {
        let reply = self.get(path).await;
        assert_eq!(reply.status, 200, "{path}: {}", reply.text());
        Page::parse(reply.text())
    }

    /// The token of the session's forms.
    pub(crate) async fn form_token(&self) -> String {
        self.page("/ui/tools").await.hidden_field("form_token").unwrap().to_owned()
    }

    /// Sends a form of a page: with its token, cookie and origin.
    pub(crate) async fn post(&self, path: &str, fields: &[(&str, &str)]) -> Reply {
        let token = self.form_token().await;
        let all = [&[("form_token", token.as_str())], fields].concat();
        self.post_from(path, &all, &[("origin", &self.origin)]).await
    }

    /// Sends a form with the cookie, exactly these fields, and these headers.
    pub(crate) async fn post_from(
        &self,
        path: &str,
        fields: &[(&str, &str)],
        headers: &[(&str, &str)],
    ) -> Reply {
        let form = "application/x-www-form-urlencoded";
        let mut client = self.client.with_header("cookie", &self.cookie);
        if headers.iter().all(|(name, _)| *name != "content-type") {
            client = client.with_header("content-type", form);
        }
        for (name, value) in headers {
            client = client.with_header(name, value);
        }
        client.send(Method::POST, path, encode_form(fields)).await
    }

    /// Approves or denies a call as its page does.
    pub(crate) async fn decide(&self, id: &str, how: &str, reason: &str) -> Reply {
        let page = self.get(&format!("/ui/approvals/{id}")).await;
        let page = Page::parse(page.text());
        let digest = page.hidden_field("arguments_sha256").unwrap_or_default();
        let fields = [("arguments_sha256", digest), ("reason", reason)];
        self.post(&format!("/ui/approvals/{id}/{how}"), &fields).await
    }
}
