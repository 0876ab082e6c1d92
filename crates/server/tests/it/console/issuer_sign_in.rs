//! Signing in with an issuer: the flow, what ends its sessions, and answers that are no answers.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use aws_lc_rs::digest::{SHA256, digest};
use bytes::Bytes;
use identity::ClaimGrant;
use serde_json::{Value, json};
use server_core::IssuerTrust;
use server_core::token_issuers::{
    AuthorizationRequest, IssuedIdentity, ReturnedCode, SignInProvider,
};
use tool::{BoxFuture, PermissionLevel, Secret};

use crate::support::browser::{percent_encode, stored_cookies};
use crate::support::token_issuer::{ISSUER, NOW, PublishedKeys, Signer, base64_url, issuer_trust};
use crate::support::{Browser, FixtureServer, Page, Reply};

const START: &str = "/ui/sign-in/issuers/corp";
const CLIENT_ID: &str = "toolkeep-console";
const CODE: &str = "code-1";

/// An issuer that signs its ID tokens and keeps to the protocol.
#[derive(Debug)]
struct ConsoleIssuer {
    signer: Signer,
    /// Challenge, nonce and redirect URI of the last authorization request.
    request: Mutex<Option<[String; 3]>>,
    /// Claims that replace those of the ID token.
    claims: Mutex<Value>,
    user_info: Mutex<Option<Value>>,
}

impl SignInProvider for ConsoleIssuer {
    fn authorization_url<'a>(
        &'a self,
        issuer: &'a str,
        request: AuthorizationRequest<'a>,
    ) -> BoxFuture<'a, Result<String, String>> {
        assert_eq!(issuer, ISSUER);
        let AuthorizationRequest { redirect_uri, state, nonce, code_challenge } = request;
        *self.request.lock().unwrap() =
            Some([code_challenge, nonce, redirect_uri].map(str::to_owned));
        Box::pin(async move { Ok(format!("{ISSUER}/login?state={state}")) })
    }

    fn exchange_code<'a>(
        &'a self,
        _: &'a str,
        returned: ReturnedCode<'a>,
    ) -> BoxFuture<'a, Result<IssuedIdentity, String>> {
        // A code counts once.
        let request = self.request.lock().unwrap().take();
        let issued = request.ok_or_else(|| "unknown code".to_owned()).and_then(|request| {
            let [challenge, nonce, redirect_uri] = request;
            let hashed = base64_url(digest(&SHA256, returned.code_verifier.as_bytes()).as_ref());
            let is_right = returned.code == CODE && returned.redirect_uri == redirect_uri;
            if !is_right || hashed != challenge || returned.issuer.is_some_and(|iss| iss != ISSUER)
            {
                return Err("invalid_grant at http://10.0.0.7/token".to_owned());
            }
            let mut claims = json!({"iss": ISSUER, "aud": CLIENT_ID, "sub": "ann", "nonce": nonce,
                "groups": ["staff"], "iat": NOW, "exp": NOW + 60});
            for (name, value) in self.claims.lock().unwrap().as_object().unwrap() {
                claims[name] = value.clone();
            }
            let id_token = Secret::new(self.signer.token(&claims));
            let user_info =
                self.user_info.lock().unwrap().as_ref().map(|all| Bytes::from(all.to_string()));
            Ok(IssuedIdentity { id_token, user_info })
        });
        Box::pin(async move { issued })
    }
}

struct SignInTest {
    server: FixtureServer,
    issuer: Arc<ConsoleIssuer>,
    published: Arc<PublishedKeys>,
}

impl SignInTest {
    async fn new() -> Self {
        let signer = Signer::new("k1");
        let published = Arc::new(PublishedKeys::default());
        published.keys.lock().unwrap().push(signer.jwk());
        let issuer = ConsoleIssuer {
            signer,
            request: Mutex::default(),
            claims: Mutex::new(json!({})),
            user_info: Mutex::default(),
        };
        let test = Self { server: FixtureServer::new().await, issuer: Arc::new(issuer), published };
        test.server.issuers.replace(Some(test.trust()));
        test
    }

    /// The issuer, whose group `staff` has the level user.
    fn trust(&self) -> IssuerTrust {
        let mut trust = issuer_trust(&self.published);
        trust.issuers[0].client_id = Some(CLIENT_ID.to_owned());
        trust.issuers[0].grants.push(ClaimGrant {
            claim: "groups".to_owned(),
            value: "staff".to_owned(),
            level: PermissionLevel::User,
            roles: Vec::new(),
        });
        trust.sign_in = Some(Arc::clone(&self.issuer) as Arc<dyn SignInProvider>);
        trust
    }

    /// Begins a sign-in, and returns the browser's cookie and the state.
    async fn begin(&self, next: &str) -> (String, String) {
        let path = format!("{START}?next={}", percent_encode(next));
        let reply = self.server.keyless_client().get(&path).await;
        assert_eq!(reply.status, 303, "{}", reply.text());
        let (_, state) = reply.header("location").unwrap().split_once("?state=").unwrap();
        (stored_cookies(&reply).remove(0), state.to_owned())
    }

    async fn come_back(&self, cookie: &str, query: &str) -> Reply {
        let client = self.server.keyless_client();
        // As a browser that another site has led here.
        let client = client.with_header("sec-fetch-site", "cross-site");
        let client = client.with_header("sec-fetch-mode", "navigate");
        client.with_header("cookie", cookie).get(&format!("{START}/callback?{query}")).await
    }

    async fn sign_in(&self) -> Reply {
        let (cookie, state) = self.begin("/ui/tools").await;
        self.come_back(&cookie, &format!("code={CODE}&state={state}")).await
    }

    async fn session(&self) -> Browser {
        let reply = self.sign_in().await;
        assert!(has_session(&reply), "{}", reply.text());
        Browser::from_reply(&self.server, &reply)
    }
}

fn has_session(reply: &Reply) -> bool {
    stored_cookies(reply).iter().any(|cookie| cookie.starts_with("toolkeep_session"))
}

#[tokio::test]
async fn a_person_signs_in_with_an_issuer_and_has_the_rights_of_its_groups() {
    let test = SignInTest::new().await;
    let page = test.server.keyless_client().get("/ui/sign-in?next=/ui/calls").await;
    let page = Page::parse(page.text());
    let link = "https://tools.example/ui/sign-in/issuers/corp?next=%2Fui%2Fcalls";
    assert!(page.values_of("href").contains(&link), "{:?}", page.values_of("href"));
    let reply = test.sign_in().await;
    assert_eq!((reply.status.as_u16(), reply.header("refresh")), (200, Some("0; url=/ui/tools")));
    let lines: Vec<_> =
        reply.headers.get_all("set-cookie").iter().map(|line| line.to_str().unwrap()).collect();
    assert!(lines[0].ends_with("; Path=/ui; HttpOnly; SameSite=Strict; Secure"), "{lines:?}");
    assert!(lines[1].contains("toolkeep_issuer") && lines[1].ends_with("Max-Age=0"), "{lines:?}");
    let browser = Browser::from_reply(&test.server, &reply);
    let page = browser.page("/ui/tools").await;
    assert!(page.text.contains("corp:ann") && page.text.contains("person, user"), "{}", page.text);
    let own = browser.get("/ui/access").await;
    assert_eq!(own.status, 403, "a user sees no keys: {}", own.text());
    let redirect = "https://tools.example/ui/sign-in/issuers/corp/callback";
    test.begin("/ui").await;
    assert_eq!(test.issuer.request.lock().unwrap().as_ref().unwrap()[2], redirect);
    // Signing out ends it, as it does for a key.
    assert_eq!(browser.post("/ui/sign-out", &[]).await.status, 303);
    assert_eq!(browser.get("/ui/tools").await.status, 303);
}

#[tokio::test]
async fn a_session_ends_with_the_grant_the_issuer_and_the_time() {
    let test = SignInTest::new().await;
    let browser = test.session().await;
    assert!(browser.page("/ui").await.text.contains("person, user"));
    let mut narrowed = test.trust();
    narrowed.issuers[0].grants.last_mut().unwrap().level = PermissionLevel::Guest;
    test.server.issuers.replace(Some(narrowed));
    assert!(browser.page("/ui").await.text.contains("person, guest"), "the level of now");
    let mut without = test.trust();
    without.issuers[0].grants.pop();
    test.server.issuers.replace(Some(without));
    assert_eq!(browser.get("/ui").await.status, 403, "no grant is left");
    test.server.issuers.replace(Some(test.trust()));
    assert_eq!(browser.get("/ui").await.status, 200, "the control");
    test.server.issuers.replace(None);
    assert_eq!(browser.get("/ui").await.status, 303, "the issuer is gone");
    test.server.issuers.replace(Some(test.trust()));
    let browser = test.session().await;
    for minutes in [20, 20, 19] {
        test.server.clock.advance(Duration::from_mins(minutes));
        assert_eq!(browser.get("/ui").await.status, 200);
    }
    test.server.clock.advance(Duration::from_mins(2));
    assert_eq!(browser.get("/ui").await.status, 303, "an hour, the longest lifetime of a token");
}

#[tokio::test]
async fn only_the_browser_that_began_a_sign_in_ends_it() {
    let test = SignInTest::new().await;
    let (cookie, state) = test.begin("/ui/tools").await;
    let (other_cookie, _) = test.begin("/ui/tools").await;
    let good = format!("code={CODE}&state={state}");
    for (cookie, query) in [
        ("", good.clone()),
        (other_cookie.as_str(), good.clone()),
        (cookie.as_str(), format!("code={CODE}")),
        (cookie.as_str(), format!("code={CODE}&state={state}0")),
        (cookie.as_str(), format!("code={CODE}&state={state}&state={state}")),
        (cookie.as_str(), format!("state={state}")),
        (cookie.as_str(), format!("state={state}&error=access_denied&code={CODE}")),
        ("toolkeep_issuer=x", good.clone()),
    ] {
        let reply = test.come_back(cookie, &query).await;
        assert!(
            !has_session(&reply) && reply.status.is_client_error(),
            "{query}: {}",
            reply.status
        );
        assert!(reply.text().contains("API key"), "it is the page to sign in again");
    }
    for (answer, why) in [
        ("code=other".to_owned(), "another code"),
        (format!("code={CODE}&iss=https://evil.example"), "the answer of another issuer"),
    ] {
        let (cookie, state) = test.begin("/ui/tools").await;
        let reply = test.come_back(&cookie, &format!("{answer}&state={state}")).await;
        assert!(!has_session(&reply), "{why}");
        assert!(!reply.text().contains("10.0.0.7"), "its reason is not for strangers");
    }
    let (cookie, state) = test.begin("/ui/tools").await;
    let good = format!("code={CODE}&state={state}&iss={ISSUER}&session_state=x");
    assert!(has_session(&test.come_back(&cookie, &good).await), "the control");
    assert!(!has_session(&test.come_back(&cookie, &good).await), "a code counts once");
}

#[tokio::test]
async fn an_id_token_for_another_purpose_signs_nobody_in() {
    let test = SignInTest::new().await;
    for (claims, status) in [
        (json!({"nonce": "other"}), 401),
        (json!({"aud": "another-client"}), 401),
        (json!({"aud": [CLIENT_ID, "another-client"]}), 401),
        (json!({"iss": "https://evil.example"}), 401),
        (json!({"exp": NOW - 100}), 401),
        (json!({"sub": "ann\u{202e}"}), 401),
        (json!({"groups": ["visitors"]}), 403),
    ] {
        *test.issuer.claims.lock().unwrap() = claims.clone();
        let reply = test.sign_in().await;
        assert!(!has_session(&reply), "{claims}");
        assert_eq!(reply.status.as_u16(), status, "{claims}: {}", reply.text());
    }
    *test.issuer.claims.lock().unwrap() = json!({});
    assert!(has_session(&test.sign_in().await), "the control");
    // A key that the issuer does not publish.
    test.published.keys.lock().unwrap().clear();
    test.server.clock.advance(Duration::from_hours(2));
    *test.issuer.claims.lock().unwrap() = json!({"iat": NOW + 7_200, "exp": NOW + 7_300});
    assert!(!has_session(&test.sign_in().await));
}

#[tokio::test]
async fn user_info_counts_for_the_same_person_only() {
    let test = SignInTest::new().await;
    *test.issuer.claims.lock().unwrap() = json!({"groups": null});
    assert_eq!(test.sign_in().await.status, 403);
    *test.issuer.claims.lock().unwrap() = json!({"team": "x"});
    let mut trust = test.trust();
    trust.issuers[0].grants.last_mut().unwrap().claim = "teams".to_owned();
    test.server.issuers.replace(Some(trust));
    *test.issuer.user_info.lock().unwrap() = Some(json!({"sub": "bob", "teams": ["staff"]}));
    assert_eq!(test.sign_in().await.status, 401, "of another person");
    *test.issuer.user_info.lock().unwrap() = Some(json!({"sub": "ann", "teams": ["staff"]}));
    assert!(has_session(&test.sign_in().await));
}

#[tokio::test]
async fn a_sign_in_leads_to_pages_of_the_console_only() {
    let test = SignInTest::new().await;
    for next in ["https://evil.example/", "//evil.example", "/ui/sign-out", "/v1/tools"] {
        let (cookie, state) = test.begin(next).await;
        let reply = test.come_back(&cookie, &format!("code={CODE}&state={state}")).await;
        assert_eq!(reply.header("refresh"), Some("0; url=/ui"), "{next}");
    }
    for unknown in ["other", "corp%2F..", "%3Cscript%3E"] {
        for path in [
            format!("/ui/sign-in/issuers/{unknown}"),
            format!("/ui/sign-in/issuers/{unknown}/callback"),
        ] {
            let reply = test.server.keyless_client().get(&path).await;
            assert!(reply.status.is_client_error() && !reply.text().contains("<script>"), "{path}");
        }
    }
    // Without an issuer there is nothing to sign in with, and no link.
    test.server.issuers.replace(None);
    assert_eq!(test.server.keyless_client().get(START).await.status, 404);
    let page = test.server.keyless_client().get("/ui/sign-in").await;
    assert!(!page.text().contains("sign-in/issuers"));
}
