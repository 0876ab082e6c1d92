//! The authorization server for tests.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::Response;
use http_body_util::Full;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::recording_server::{
    RecordedRequest, RecordingServer, RequestResponder, bind_loopback, build_response,
    json_response as answer,
};

/// The behavior of an authorization server, with its faults.
#[derive(Debug, Clone)]
pub struct AuthorityBehavior {
    /// Members that override its metadata; `null` removes one.
    pub metadata: Value,
    /// Its raw metadata document, valid or not.
    pub raw_metadata: Option<String>,
    /// The redirect target of metadata requests.
    pub redirect_metadata: Option<String>,
    /// The redirect target of token requests.
    pub redirect_token: Option<String>,
    /// The delay of each token request.
    pub token_delay: Duration,
    /// The lifetime of tokens in seconds; `None` omits it.
    pub expires_in: Option<u64>,
    /// Whether it issues refresh tokens, each for a single use.
    pub issues_refresh_tokens: bool,
    /// The audience of tokens, regardless of the request.
    pub audience: Option<String>,
    /// `iss` of its redirects: `None` for the correct one, `Some(None)` to omit it.
    pub iss: Option<Option<String>>,
    /// The only scopes that are granted.
    pub granted_scopes: Option<BTreeSet<String>>,
    /// The error status of every token request.
    pub failing_status: Option<u16>,
    /// The registered clients with their secrets.
    pub clients: BTreeMap<String, String>,
}

impl Default for AuthorityBehavior {
    fn default() -> Self {
        Self {
            metadata: json!({}),
            raw_metadata: None,
            redirect_metadata: None,
            redirect_token: None,
            token_delay: Duration::ZERO,
            expires_in: Some(3600),
            issues_refresh_tokens: true,
            audience: None,
            iss: None,
            granted_scopes: None,
            failing_status: None,
            clients: BTreeMap::from([("known".to_owned(), "s3cret".to_owned())]),
        }
    }
}

/// The grant of a token.
#[derive(Debug, Clone)]
pub(super) struct TokenGrant {
    pub(super) audience: String,
    pub(super) scopes: BTreeSet<String>,
}

#[derive(Debug)]
struct IssuedCode {
    challenge: String,
    client: String,
    redirect: String,
    scopes: BTreeSet<String>,
}

#[derive(Debug, Default)]
struct AuthorityState {
    behavior: AuthorityBehavior,
    codes: HashMap<String, IssuedCode>,
    tokens: HashMap<String, TokenGrant>,
    refresh: HashMap<String, (String, BTreeSet<String>)>,
    redirects: HashMap<String, String>,
    count: usize,
}

#[derive(Debug)]
struct AuthorityInner {
    url: String,
    state: Mutex<AuthorityState>,
}

/// A running authorization server; it stops when dropped.
#[derive(Debug, Clone)]
pub struct AuthorizationServer {
    inner: Arc<AuthorityInner>,
    site: Arc<RecordingServer>,
}

impl AuthorizationServer {
    /// Starts the server. Requires a tokio runtime.
    pub fn start_server(behavior: AuthorityBehavior) -> Self {
        let listener = bind_loopback();
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let state = Mutex::new(AuthorityState { behavior, ..AuthorityState::default() });
        let inner = Arc::new(AuthorityInner { url, state });
        let site = Arc::new(RecordingServer::serve_requests(listener, Arc::clone(&inner)));
        Self { inner, site }
    }

    /// Returns the server's issuer URL.
    pub fn url(&self) -> &str {
        &self.inner.url
    }

    /// Changes the behavior of the server.
    pub fn change_behavior(&self, change: impl FnOnce(&mut AuthorityBehavior)) {
        change(&mut self.inner.lock_state().behavior);
    }

    /// The requests at paths with this prefix.
    pub fn requests_at(&self, path: &str) -> Vec<RecordedRequest> {
        self.site.requests_at(path)
    }

    /// Revokes all access tokens.
    pub fn revoke_access(&self) {
        self.inner.lock_state().tokens.clear();
    }

    /// Revokes all refresh tokens.
    pub fn revoke_refresh(&self) {
        self.inner.lock_state().refresh.clear();
    }

    /// Returns the grant of a token.
    pub(super) fn token_grant(&self, token: &str) -> Option<TokenGrant> {
        self.inner.lock_state().tokens.get(token).cloned()
    }
}

impl RequestResponder for AuthorityInner {
    async fn answer_request(&self, seen: RecordedRequest) -> Response<Full<Bytes>> {
        match seen.uri.path() {
            "/token" => {
                let slow = self.lock_state().behavior.token_delay;
                tokio::time::sleep(slow).await;
                self.issue_token(&seen)
            }
            "/authorize" => self.authorize_client(&seen),
            "/register" => self.register_client(&seen),
            "/revoke" => {
                let token = seen.form_fields().remove("token").unwrap_or_default();
                self.lock_state().refresh.remove(&token);
                build_response(200, "text/plain", "")
            }
            "/.well-known/oauth-authorization-server" => self.server_metadata(),
            _ => build_response(404, "text/plain", "nothing here"),
        }
    }
}

impl AuthorityInner {
    fn lock_state(&self) -> MutexGuard<'_, AuthorityState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn server_metadata(&self) -> Response<Full<Bytes>> {
        let behavior = self.lock_state().behavior.clone();
        if let Some(to) = behavior.redirect_metadata {
            return redirect_to(302, &to);
        }
        if let Some(raw) = behavior.raw_metadata {
            return build_response(200, "application/json", raw);
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
        for (name, value) in behavior.metadata.as_object().into_iter().flatten() {
            said[name.as_str()] = value.clone();
        }
        if let Some(members) = said.as_object_mut() {
            members.retain(|_, value| !value.is_null());
        }
        answer(200, &said)
    }

    fn register_client(&self, seen: &RecordedRequest) -> Response<Full<Bytes>> {
        let request: Value = serde_json::from_slice(&seen.body).unwrap_or_default();
        let redirect = request["redirect_uris"][0].as_str().unwrap_or_default().to_owned();
        let mut state = self.lock_state();
        state.count += 1;
        let id = format!("client-{}", state.count);
        state.redirects.insert(id.clone(), redirect);
        answer(
            201,
            &json!({"client_id": id, "token_endpoint_auth_method": "none",
            "redirect_uris": request["redirect_uris"]}),
        )
    }

    /// The user has always consented already.
    fn authorize_client(&self, seen: &RecordedRequest) -> Response<Full<Bytes>> {
        let request = seen.form_fields();
        let get = |name: &str| request.get(name).cloned().unwrap_or_default();
        let (client, redirect) = (get("client_id"), get("redirect_uri"));
        let mut state = self.lock_state();
        let registered = state.redirects.get(&client).is_some_and(|it| *it == redirect);
        if !registered && !state.behavior.clients.contains_key(&client) {
            return build_response(400, "text/plain", "an unknown client or redirect");
        }
        if get("code_challenge_method") != "S256" || get("response_type") != "code" {
            return build_response(400, "text/plain", "PKCE with S256, please");
        }
        state.count += 1;
        let code = format!("code-{}", state.count);
        let iss = state.behavior.iss.clone().unwrap_or_else(|| Some(self.url.clone()));
        let scopes = scope_set(&get("scope"));
        let challenge = get("code_challenge");
        let mut to = format!("{redirect}?code={code}&state={}", get("state"));
        state.codes.insert(code, IssuedCode { challenge, client, redirect, scopes });
        if let Some(iss) = iss {
            to.push_str("&iss=");
            to.push_str(&iss);
        }
        redirect_to(302, &to)
    }

    fn issue_token(&self, seen: &RecordedRequest) -> Response<Full<Bytes>> {
        let request = seen.form_fields();
        let get = |name: &str| request.get(name).cloned().unwrap_or_default();
        let mut state = self.lock_state();
        if let Some(to) = &state.behavior.redirect_token {
            return redirect_to(307, to);
        }
        if let Some(status) = state.behavior.failing_status {
            return build_response(status, "text/plain", "down");
        }
        let basic = seen.header_text("authorization").unwrap_or_default();
        let known = state.behavior.clients.iter().find(|(id, secret)| {
            basic == format!("Basic {}", encode_base64(format!("{id}:{secret}").as_bytes()))
        });
        let proved = known.map(|(id, _)| id.clone());
        let client = proved.clone().unwrap_or_else(|| get("client_id"));
        let refused =
            |error: &str| answer(400, &json!({"error": error, "error_description": "no"}));
        let scopes = match get("grant_type").as_str() {
            "client_credentials" if proved.is_none() => return refused("invalid_client"),
            "client_credentials" => scope_set(&get("scope")),
            "authorization_code" => {
                let hash = Sha256::digest(get("code_verifier").as_bytes());
                let challenge = encode_base64(&hash).replace('+', "-").replace('/', "_");
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
        let grants = state.behavior.granted_scopes.clone();
        let scopes: BTreeSet<String> = scopes
            .into_iter()
            .filter(|it| grants.as_ref().is_none_or(|all| all.contains(it)))
            .collect();
        let interactive = get("grant_type") != "client_credentials";
        let audience = state.behavior.audience.clone().unwrap_or_else(|| get("resource"));
        state.count += 1;
        let access = format!("access-{}-{}", state.count, uuid::Uuid::new_v4());
        let mut given = json!({"access_token": access, "token_type": "Bearer"});
        if !scopes.is_empty() {
            given["scope"] = json!(scopes.iter().cloned().collect::<Vec<_>>().join(" "));
        }
        if let Some(life) = state.behavior.expires_in {
            given["expires_in"] = json!(life);
        }
        if state.behavior.issues_refresh_tokens && interactive {
            let refresh = format!("refresh-{}-{}", state.count, uuid::Uuid::new_v4());
            given["refresh_token"] = json!(refresh);
            state.refresh.insert(refresh, (client, scopes.clone()));
        }
        state.tokens.insert(access, TokenGrant { audience, scopes });
        answer(200, &given)
    }
}

fn redirect_to(status: u16, to: &str) -> Response<Full<Bytes>> {
    let mut response = build_response(status, "text/plain", "");
    response.headers_mut().insert(http::header::LOCATION, to.parse().expect("an address"));
    response
}

fn scope_set(text: &str) -> BTreeSet<String> {
    text.split_ascii_whitespace().map(str::to_owned).collect()
}

fn encode_base64(bytes: &[u8]) -> String {
    crate::mcp_driver::encode_base64(bytes)
}
