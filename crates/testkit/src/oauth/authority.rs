//! The authorization server for tests.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::Response;
use http_body_util::Full;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::site::{Answers, Seen, Site, free, json as answer, reply};

/// The behavior of an authorization server, with its faults.
#[derive(Debug, Clone)]
pub struct Habits {
    /// Members that override its metadata; `null` removes one.
    pub metadata: Value,
    /// Its raw metadata document, valid or not.
    pub raw_metadata: Option<String>,
    /// The redirect target of metadata requests.
    pub redirect_metadata: Option<String>,
    /// The redirect target of token requests.
    pub redirect_token: Option<String>,
    /// The delay of each token request.
    pub slow: Duration,
    /// The lifetime of tokens in seconds; `None` omits it.
    pub expires_in: Option<u64>,
    /// Whether it issues refresh tokens, each for a single use.
    pub refresh: bool,
    /// The audience of tokens, regardless of the request.
    pub audience: Option<String>,
    /// `iss` of its redirects: `None` for the correct one, `Some(None)` to omit it.
    pub iss: Option<Option<String>>,
    /// The only scopes that are granted.
    pub grants: Option<BTreeSet<String>>,
    /// The error status of every token request.
    pub broken: Option<u16>,
    /// The registered clients with their secrets.
    pub clients: BTreeMap<String, String>,
}

impl Default for Habits {
    fn default() -> Self {
        Self {
            metadata: json!({}),
            raw_metadata: None,
            redirect_metadata: None,
            redirect_token: None,
            slow: Duration::ZERO,
            expires_in: Some(3600),
            refresh: true,
            audience: None,
            iss: None,
            grants: None,
            broken: None,
            clients: BTreeMap::from([("known".to_owned(), "s3cret".to_owned())]),
        }
    }
}

/// The grant of a token.
#[derive(Debug, Clone)]
pub(super) struct Facts {
    pub(super) audience: String,
    pub(super) scopes: BTreeSet<String>,
}

#[derive(Debug)]
struct Code {
    challenge: String,
    client: String,
    redirect: String,
    scopes: BTreeSet<String>,
}

#[derive(Debug, Default)]
struct State {
    habits: Habits,
    codes: HashMap<String, Code>,
    tokens: HashMap<String, Facts>,
    refresh: HashMap<String, (String, BTreeSet<String>)>,
    redirects: HashMap<String, String>,
    count: usize,
}

#[derive(Debug)]
struct Inner {
    url: String,
    state: Mutex<State>,
}

/// A running authorization server; it stops when dropped.
#[derive(Debug, Clone)]
pub struct Authority {
    inner: Arc<Inner>,
    site: Arc<Site>,
}

impl Authority {
    /// Starts the server. Requires a tokio runtime.
    pub fn start(habits: Habits) -> Self {
        let listener = free();
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let state = Mutex::new(State { habits, ..State::default() });
        let inner = Arc::new(Inner { url, state });
        let site = Arc::new(Site::serve(listener, Arc::clone(&inner)));
        Self { inner, site }
    }

    /// The issuer URL.
    pub fn url(&self) -> &str {
        &self.inner.url
    }

    /// Changes its behavior.
    pub fn change(&self, change: impl FnOnce(&mut Habits)) {
        change(&mut self.inner.state().habits);
    }

    /// The requests at paths with this prefix.
    pub fn seen(&self, path: &str) -> Vec<Seen> {
        self.site.seen(path)
    }

    /// Revokes all access tokens.
    pub fn revoke_access(&self) {
        self.inner.state().tokens.clear();
    }

    /// Revokes all refresh tokens.
    pub fn revoke_refresh(&self) {
        self.inner.state().refresh.clear();
    }

    /// Returns the grant of a token.
    pub(super) fn facts(&self, token: &str) -> Option<Facts> {
        self.inner.state().tokens.get(token).cloned()
    }
}

impl Answers for Inner {
    async fn answer(&self, seen: Seen) -> Response<Full<Bytes>> {
        match seen.uri.path() {
            "/token" => {
                let slow = self.state().habits.slow;
                tokio::time::sleep(slow).await;
                self.token(&seen)
            }
            "/authorize" => self.authorize(&seen),
            "/register" => self.register(&seen),
            "/revoke" => {
                let token = seen.fields().remove("token").unwrap_or_default();
                self.state().refresh.remove(&token);
                reply(200, "text/plain", "")
            }
            "/.well-known/oauth-authorization-server" => self.metadata(),
            _ => reply(404, "text/plain", "nothing here"),
        }
    }
}

impl Inner {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn metadata(&self) -> Response<Full<Bytes>> {
        let habits = self.state().habits.clone();
        if let Some(to) = habits.redirect_metadata {
            return elsewhere(302, &to);
        }
        if let Some(raw) = habits.raw_metadata {
            return reply(200, "application/json", raw);
        }
        let at = |path: &str| format!("{}{path}", self.url);
        let mut said = json!({
            "issuer": self.url,
            "authorization_endpoint": at("/authorize"),
            "token_endpoint": at("/token"),
            "registration_endpoint": at("/register"),
            "revocation_endpoint": at("/revoke"),
            "response_types_supported": ["code"],
            "grant_types_supported": ["authorization_code", "refresh_token", "client_credentials"],
            "code_challenge_methods_supported": ["S256"],
            "token_endpoint_auth_methods_supported": ["none", "client_secret_basic"],
            "authorization_response_iss_parameter_supported": true,
        });
        for (name, value) in habits.metadata.as_object().into_iter().flatten() {
            said[name.as_str()] = value.clone();
        }
        if let Some(members) = said.as_object_mut() {
            members.retain(|_, value| !value.is_null());
        }
        answer(200, &said)
    }

    fn register(&self, seen: &Seen) -> Response<Full<Bytes>> {
        let asked: Value = serde_json::from_slice(&seen.body).unwrap_or_default();
        let redirect = asked["redirect_uris"][0].as_str().unwrap_or_default().to_owned();
        let mut state = self.state();
        state.count += 1;
        let id = format!("client-{}", state.count);
        state.redirects.insert(id.clone(), redirect);
        answer(
            201,
            &json!({"client_id": id, "token_endpoint_auth_method": "none",
            "redirect_uris": asked["redirect_uris"]}),
        )
    }

    /// The user has always consented already.
    fn authorize(&self, seen: &Seen) -> Response<Full<Bytes>> {
        let asked = seen.fields();
        let get = |name: &str| asked.get(name).cloned().unwrap_or_default();
        let (client, redirect) = (get("client_id"), get("redirect_uri"));
        let mut state = self.state();
        let registered = state.redirects.get(&client).is_some_and(|it| *it == redirect);
        if !registered && !state.habits.clients.contains_key(&client) {
            return reply(400, "text/plain", "an unknown client or redirect");
        }
        if get("code_challenge_method") != "S256" || get("response_type") != "code" {
            return reply(400, "text/plain", "PKCE with S256, please");
        }
        state.count += 1;
        let code = format!("code-{}", state.count);
        let iss = state.habits.iss.clone().unwrap_or_else(|| Some(self.url.clone()));
        let scopes = words(&get("scope"));
        let challenge = get("code_challenge");
        let mut to = format!("{redirect}?code={code}&state={}", get("state"));
        state.codes.insert(code, Code { challenge, client, redirect, scopes });
        if let Some(iss) = iss {
            to.push_str("&iss=");
            to.push_str(&iss);
        }
        elsewhere(302, &to)
    }

    fn token(&self, seen: &Seen) -> Response<Full<Bytes>> {
        let asked = seen.fields();
        let get = |name: &str| asked.get(name).cloned().unwrap_or_default();
        let mut state = self.state();
        if let Some(to) = &state.habits.redirect_token {
            return elsewhere(307, to);
        }
        if let Some(status) = state.habits.broken {
            return reply(status, "text/plain", "down");
        }
        let basic = seen.header("authorization").unwrap_or_default();
        let known = state.habits.clients.iter().find(|(id, secret)| {
            basic == format!("Basic {}", base64(format!("{id}:{secret}").as_bytes()))
        });
        let proved = known.map(|(id, _)| id.clone());
        let client = proved.clone().unwrap_or_else(|| get("client_id"));
        let refused =
            |error: &str| answer(400, &json!({"error": error, "error_description": "no"}));
        let scopes = match get("grant_type").as_str() {
            "client_credentials" if proved.is_none() => return refused("invalid_client"),
            "client_credentials" => words(&get("scope")),
            "authorization_code" => {
                let hash = Sha256::digest(get("code_verifier").as_bytes());
                let challenge = base64(&hash).replace('+', "-").replace('/', "_");
                let code = state.codes.remove(&get("code")).filter(|code| {
                    code.challenge == challenge.trim_end_matches('=')
                        && code.client == client
                        && code.redirect == get("redirect_uri")
                });
                let Some(code) = code else { return refused("invalid_grant") };
                code.scopes
            }
            "refresh_token" => match state.refresh.remove(&get("refresh_token")) {
                Some((of, scopes)) if of == client => scopes,
                _ => return refused("invalid_grant"),
            },
            _ => return refused("unsupported_grant_type"),
        };
        let grants = state.habits.grants.clone();
        let scopes: BTreeSet<String> = scopes
            .into_iter()
            .filter(|it| grants.as_ref().is_none_or(|all| all.contains(it)))
            .collect();
        let interactive = get("grant_type") != "client_credentials";
        let audience = state.habits.audience.clone().unwrap_or_else(|| get("resource"));
        state.count += 1;
        let access = format!("access-{}-{}", state.count, uuid::Uuid::new_v4());
        let mut given = json!({"access_token": access, "token_type": "Bearer"});
        if !scopes.is_empty() {
            given["scope"] = json!(scopes.iter().cloned().collect::<Vec<_>>().join(" "));
        }
        if let Some(life) = state.habits.expires_in {
            given["expires_in"] = json!(life);
        }
        if state.habits.refresh && interactive {
            let refresh = format!("refresh-{}-{}", state.count, uuid::Uuid::new_v4());
            given["refresh_token"] = json!(refresh);
            state.refresh.insert(refresh, (client, scopes.clone()));
        }
        state.tokens.insert(access, Facts { audience, scopes });
        answer(200, &given)
    }
}

fn elsewhere(status: u16, to: &str) -> Response<Full<Bytes>> {
    let mut response = reply(status, "text/plain", "");
    response.headers_mut().insert(http::header::LOCATION, to.parse().expect("an address"));
    response
}

fn words(text: &str) -> BTreeSet<String> {
    text.split_ascii_whitespace().map(str::to_owned).collect()
}

fn base64(bytes: &[u8]) -> String {
    crate::mcp_driver::base64(bytes)
}
