//! A person's consent: OAuth's authorization code with PKCE. The person opens an address, the
//! authorization server sends the person's browser back, and what it brings is exchanged for tokens.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::{constant_time, digest, rand};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use egress::Origin;
use serde::Deserialize;
use serde_json::json;
use tokio::time::{Instant, timeout};
use tool::source::Consent;
use tool::{Boxed, Problem};
use url::Url;

use super::account::{Account, State};
use super::client::Client;
use super::discover::discover;
use super::kept::{self, Kept, Registration};
use super::metadata::Known;
use super::renew::scope_field;
use super::token::ask;
use super::web::{At, named, read};
use super::{Fault, Grant};
use tool::display_text::shown;

/// Logins that were begun and not ended, and how long one may take.
const PENDING: (usize, Duration) = (8, Duration::from_mins(10));
/// Bytes of the answer that a browser brings.
const ANSWER: usize = 16 << 10;
/// Bytes of the hash that stands for an issuer in the address that a browser comes back to.
const ISSUER: usize = 16;
/// How long an authorization server may take to forget.
const REVOKING: Duration = Duration::from_secs(5);

/// A login that was begun.
pub(super) struct Pending {
    state: String,
    verifier: String,
    redirect: String,
    client: Client,
    registered: Option<Registration>,
    known: Arc<Known>,
    scopes: BTreeSet<String>,
    since: Instant,
}

impl Pending {
    /// Whether an answer that came to this path is one to this login. Where the operator named the
    /// issuer, whoever brings the answer need not say.
    fn awaits(&self, path: Option<&str>, configured: bool) -> bool {
        let own = Url::parse(&self.redirect);
        match path {
            Some(path) => own.is_ok_and(|own| own.path() == path),
            None => configured,
        }
    }
}

#[derive(Deserialize)]
struct Registering {
    client_id: String,
    client_secret: Option<String>,
    token_endpoint_auth_method: Option<String>,
}

#[derive(Deserialize)]
struct NotRegistered {
    error: String,
    error_description: Option<String>,
}

impl Account {
    async fn begun(&self, redirect: &str) -> Result<String, Fault> {
        if self.settings.grant != Grant::AuthorizationCode {
            return Err(Fault::refused(
                "logs in by itself, with the credential in the configuration",
            ));
        }
        if !comes_back_here(redirect) {
            return Err(Fault::refused("can send nobody back but to `http://127.0.0.1:PORT/…`"));
        }
        self.load().await?;
        self.wake();
        // Anew: a person is asked rarely, and is asked by the right one.
        let hint = self.state().metadata.clone();
        let known = discover(&self.web, (&self.settings, &self.url), hint.as_deref()).await?;
        let known = Arc::new(known);
        self.state().known = Some(Arc::clone(&known));
        let mut page = self.login_page(&known)?;
        let redirect = self.redirect(redirect, &known)?;
        let redirect = redirect.as_str();
        let scopes = self.lasting(&known);
        let (client, registered) = if let Some(client) = self.client(&known, Some(redirect)) {
            (client, None)
        } else {
            let registered = self.register(&known, (redirect, &scopes)).await?;
            (registered.client(), Some(registered))
        };
        let (state, verifier) = (random()?, random()?);
        let challenge = digest::digest(&digest::SHA256, verifier.as_bytes());
        let redirect = redirect.to_owned();
        page.query_pairs_mut()
            .append_pair("response_type", "code")
            .append_pair("client_id", &client.id)
            .append_pair("redirect_uri", &redirect)
            .append_pair("code_challenge", &URL_SAFE_NO_PAD.encode(challenge))
            .append_pair("code_challenge_method", "S256")
            .append_pair("state", &state)
            .append_pair("resource", &known.resource)
            .extend_pairs(scope_field(&scopes));
        let since = Instant::now();
        self.state().expect_one(Pending {
            state,
            verifier,
            redirect,
            client,
            registered,
            known,
            scopes,
            since,
        });
        Ok(page.into())
    }

    /// The page that a person is sent to.
    fn login_page(&self, known: &Known) -> Result<Url, Fault> {
        if !known.server.has_pkce() {
            let message =
                "has an authorization server without PKCE (S256), so nobody is sent there";
            return Err(Fault::blocked(message));
        }
        let Some(page) = known.server.authorization_endpoint.as_deref() else {
            return Err(Fault::malformed("has an authorization server where nobody can log in")
                .fix("use `grant: client_credentials`"));
        };
        self.web.places.check_shown(page)?;
        self.check_pin(known)?;
        if !known.server.has_one_origin() && !self.has_configured_issuer() {
            let message = format!(
                "has the authorization server `{}`, whose login page and token endpoint are of \
                 different origins: nobody is sent there",
                shown(&known.server.issuer, 200)
            );
            let fix = "where that is right, write the authorization server as `issuer`";
            return Err(Fault::blocked(message).fix(fix));
        }
        Url::parse(page)
            .map_err(|_| Fault::malformed("has an authorization server with no usable address"))
    }

    /// Where the browser comes back to from this authorization server. Each has an address of its own, so
    /// that an answer of one is not taken for another's; a configured one is the only one.
    fn redirect(&self, redirect: &str, known: &Known) -> Result<String, Fault> {
        if self.has_configured_issuer() {
            return Ok(redirect.to_owned());
        }
        let unfit = |_| Fault::refused("is given an address to come back to that is none");
        let mut own = Url::parse(redirect).map_err(unfit)?;
        let hash = digest::digest(&digest::SHA256, known.server.issuer.as_bytes());
        let short = hash.as_ref().get(..ISSUER).unwrap_or_default();
        let path =
            format!("{}/{}", own.path().trim_end_matches('/'), URL_SAFE_NO_PAD.encode(short));
        own.set_path(&path);
        Ok(own.into())
    }

    /// The scopes to ask for, and the one that brings a refresh token where the server has it (SEP-2207).
    fn lasting(&self, known: &Known) -> BTreeSet<String> {
        const OFFLINE: &str = "offline_access";
        let mut scopes = self.state().scopes(&self.settings, known);
        if known.server.knows_scope(OFFLINE) {
            scopes.insert(OFFLINE.to_owned());
        } else {
            scopes.remove(OFFLINE);
        }
        scopes
    }

    /// Registers a client (RFC 7591).
    async fn register(
        &self,
        known: &Known,
        (redirect, scopes): (&str, &BTreeSet<String>),
    ) -> Result<Registration, Fault> {
        let Some(url) = known.server.registration_endpoint.as_deref() else {
            let message = "has an authorization server at which no client can register itself";
            let fix = "register one there, and write its `client_id` under `oauth`";
            return Err(Fault::refused(message).fix(fix));
        };
        let taken = known.server.token_endpoint_auth_methods_supported.as_deref();
        let taken = taken.unwrap_or_default();
        let wanted = ["none", "client_secret_basic", "client_secret_post"];
        let method = wanted.into_iter().find(|it| taken.iter().any(|taken| taken == it));
        let mut client = json!({
            "client_name": "Toolkeep",
            "redirect_uris": [redirect],
            "grant_types": ["authorization_code", "refresh_token"],
            "response_types": ["code"],
            "application_type": "native",
            "token_endpoint_auth_method": method.unwrap_or("none"),
        });
        if let (Some((_, scope)), Some(members)) = (scope_field(scopes), client.as_object_mut()) {
            members.insert("scope".to_owned(), json!(scope));
        }
        let at = At { url, what: "the registration endpoint", whose: "the authorization server" };
        let answer = self.web.post(at, &client).await?;
        if !answer.status.is_success() {
            let said: Option<NotRegistered> = serde_json::from_slice(&answer.body).ok();
            let why = said.map_or_else(
                || format!("HTTP {}", answer.status),
                |said| {
                    let why = said.error_description.unwrap_or_default();
                    shown(&format!("{} {why}", said.error), 200)
                },
            );
            let message = format!("{} refuses: {why}", named(at));
            let fix = "register a client there by hand, and write its `client_id` under `oauth`";
            return Err(Fault::refused(message).fix(fix));
        }
        let Registering { client_id, client_secret, token_endpoint_auth_method } =
            read(at, &answer.body).map_err(|_| {
                Fault::malformed(format!("{} answers with what is no registration", named(at)))
            })?;
        let secret =
            client_secret.filter(|_| token_endpoint_auth_method.as_deref() != Some("none"));
        let method = token_endpoint_auth_method.filter(|_| secret.is_some());
        Ok(Registration { id: client_id, secret, method, redirect: redirect.to_owned() })
    }

    async fn ended(&self, answer: &str) -> Result<(), Fault> {
        let closed = || Fault::refused("asks for no token any more");
        let _turn = Arc::clone(&self.turn).acquire_owned().await.map_err(|_| closed())?;
        let nobodys = || {
            let message =
                "expects no such answer: it was used already, is too old, or is another's";
            Fault::refused(message)
                .fix(format!("run `toolkeep source login {}` anew", self.settings.source))
        };
        let answer = Some(answer).filter(|answer| answer.len() <= ANSWER).ok_or_else(nobodys)?;
        let (path, query) = match answer.split_once('?') {
            Some((path, query)) if path.starts_with('/') => (Some(path), query),
            _ => (None, answer),
        };
        let mut said = HashMap::new();
        for (name, value) in url::form_urlencoded::parse(query.as_bytes()) {
            if said.insert(name, value).is_some() {
                return Err(nobodys());
            }
        }
        let state = said.get("state").map(|state| state.as_bytes()).unwrap_or_default();
        let pending = self.state().awaited(state).ok_or_else(nobodys)?;
        let server = &pending.known.server;
        // Before anything else of the answer is looked at (RFC 9207 2.4): it may be another server's.
        let iss = said.get("iss");
        let required = server.authorization_response_iss_parameter_supported == Some(true);
        let elsewhere = !pending.awaits(path, self.has_configured_issuer());
        if iss.is_some_and(|iss| **iss != *server.issuer) || iss.is_none() && required || elsewhere
        {
            let message = format!(
                "got an answer that does not say that it is of `{}`: it is not used",
                shown(&server.issuer, 200)
            );
            return Err(Fault::blocked(message).fix("log in anew, and ask who runs the server"));
        }
        if let Some(error) = said.get("error") {
            let why = said.get("error_description").map(|why| shown(why, 200)).unwrap_or_default();
            let message = format!("was not given consent: {} {why}", shown(error, 60));
            return Err(Fault::refused(message.trim_end().to_owned()));
        }
        let code = said.get("code").filter(|code| !code.is_empty()).ok_or_else(nobodys)?;
        let grant = vec![
            ("grant_type", "authorization_code".to_owned()),
            ("code", code.clone().into_owned()),
            ("redirect_uri", pending.redirect.clone()),
            ("code_verifier", pending.verifier.clone()),
        ];
        self.pin(&pending.known).await?;
        let now = self.means.clock.wall();
        let given = ask(&self.web, &pending.known, (&pending.client, now), grant).await?;
        self.settle(pending, &given, now).await
    }

    async fn settle(
        &self,
        pending: Pending,
        given: &super::token::Given,
        now: tool::Wall,
    ) -> Result<(), Fault> {
        let issuer = &pending.known.server.issuer;
        let (metadata, before) = {
            let state = self.state();
            let before = state.kept.as_ref().filter(|kept| kept.issuer == *issuer);
            (state.metadata.clone(), before.and_then(|kept| kept.client.clone()))
        };
        let kept = Kept {
            metadata,
            client: pending.registered.or(before),
            scopes: pending.scopes.iter().cloned().collect(),
            ..Kept::new(&self.settings.url, issuer)
        };
        self.keep_given(kept, given, now).await;
        let token = self.take(given, pending.scopes)?;
        tracing::info!(source = %self.settings.source, number = token.number, "a person has logged in");
        Ok(())
    }

    async fn forgotten(&self) -> Result<bool, Fault> {
        let closed = || Fault::refused("asks for no token any more");
        let _turn = Arc::clone(&self.turn).acquire_owned().await.map_err(|_| closed())?;
        self.load().await?;
        let (kept, version) = {
            let state = self.state();
            (state.kept.clone(), state.version)
        };
        // Whom the operator's own client was shown to is no secret, and outlives what was given.
        let pinned = kept.as_ref().filter(|_| self.settings.client.is_some());
        let pinned = pinned.map(|kept| Kept::new(&kept.url, &kept.issuer));
        let mut left = None;
        if let Some(store) = &self.means.store {
            let (source, now) = (&self.settings.source, (pinned.as_ref(), version));
            let written = kept::write(store.as_ref(), source, now).await;
            left = written.map_err(|error| Fault::store(&error))?;
        }
        *self.state() = State { loaded: true, kept: pinned, version: left, ..State::default() };
        let Some(kept) = kept.filter(|kept| kept.refresh.is_some() || kept.access.is_some()) else {
            return Ok(false);
        };
        if timeout(REVOKING, self.revoke(&kept)).await.is_err() {
            tracing::info!(source = %self.settings.source, "its tokens were forgotten here, and not revoked");
        }
        Ok(true)
    }

    /// Tells the authorization server, where it wants to know (RFC 7009). What is forgotten here is
    /// forgotten whatever it says.
    async fn revoke(&self, kept: &Kept) -> Option<()> {
        let hint = kept.metadata.as_deref();
        let known = discover(&self.web, (&self.settings, &self.url), hint).await.ok()?;
        let url = known.server.revocation_endpoint.as_deref();
        let url = url.filter(|_| known.server.issuer == kept.issuer)?;
        let client = self.client(&known, None).or_else(|| Some(kept.client.as_ref()?.client()))?;
        let mut signed = client.sign(&known.server, self.means.clock.wall()).ok()?;
        let token = kept.refresh.clone().or_else(|| kept.access.clone())?;
        signed.fields.push(("token", token));
        let at = At { url, what: "the revocation endpoint", whose: "the authorization server" };
        self.web.form(at, signed.headers, &signed.fields).await.ok().map(drop)
    }

    fn told(&self, fault: Fault) -> Problem {
        fault.problem(&format!("`{}`", self.settings.source))
    }
}

impl State {
    fn expect_one(&mut self, pending: Pending) {
        self.pending.retain(|it| it.since.elapsed() < PENDING.1);
        if self.pending.len() >= PENDING.0 {
            self.pending.remove(0);
        }
        self.pending.push(pending);
    }

    /// The login of this state, once.
    fn awaited(&mut self, state: &[u8]) -> Option<Pending> {
        self.pending.retain(|it| it.since.elapsed() < PENDING.1);
        let same = |it: &Pending| {
            constant_time::verify_slices_are_equal(it.state.as_bytes(), state).is_ok()
        };
        let at = self.pending.iter().position(same)?;
        Some(self.pending.remove(at))
    }
}

fn comes_back_here(redirect: &str) -> bool {
    Origin::parse(redirect).is_ok_and(|origin| origin.is_loopback() && !origin.is_https())
}

/// 256 bits that nobody guesses.
fn random() -> Result<String, Fault> {
    let mut bytes = [0; 32];
    rand::fill(&mut bytes).map_err(|_| Fault::refused("gets no random bytes from the system"))?;
    Ok(URL_SAFE_NO_PAD.encode(bytes))
}

impl Consent for Account {
    fn begin<'a>(&'a self, redirect: &'a str) -> Boxed<'a, Result<String, Problem>> {
        Box::pin(async move { self.begun(redirect).await.map_err(|fault| self.told(fault)) })
    }
    fn finish<'a>(&'a self, answer: &'a str) -> Boxed<'a, Result<(), Problem>> {
        Box::pin(async move { self.ended(answer).await.map_err(|fault| self.told(fault)) })
    }
    fn forget(&self) -> Boxed<'_, Result<bool, Problem>> {
        Box::pin(async move { self.forgotten().await.map_err(|fault| self.told(fault)) })
    }
}
