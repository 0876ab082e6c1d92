//! Client of an issuer that the operator trusts: its signing keys, and signing people in with it
//! (OpenID Connect Core 1.0, authorization code flow with PKCE).
//!
//! It fetches and sends, and verifies nothing but who answered: tokens are verified by `identity`.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use egress::{EgressClient, Origin};
use http::{HeaderMap, header};
use tokio::time::Instant;
use tool::{Problem, Secret, WallTime};
use url::Url;

use super::address_policy::AddressPolicy;
use super::client_auth::OAuthClient;
use super::discovery::fetch_server_metadata;
use super::http_client::{OAuthHttpClient, RequestTarget};
use super::metadata::AuthorizationServerMetadata;
use super::token_request::{AccessToken, request_token};
use super::{ConfiguredClient, TokenError};

/// Time after which the metadata of the issuer are fetched again.
const METADATA_LIFETIME: Duration = Duration::from_mins(10);
/// The party that names the URLs in metadata, for errors.
const ISSUER: &str = "the issuer";

/// Client of one issuer.
#[derive(Debug)]
pub struct IssuerClient {
    http: OAuthHttpClient,
    issuer: String,
    jwks_url: Option<String>,
    /// Metadata of the last minutes, so that a sign-in does not fetch them twice.
    metadata: Mutex<Option<(Instant, Arc<AuthorizationServerMetadata>)>>,
}

/// This server as a client of the issuer, for people who sign in.
#[derive(Debug, Clone)]
pub struct SignInClient {
    /// The registered client.
    pub client: ConfiguredClient,
    /// Scopes to request; `openid` is always one of them.
    pub scopes: Vec<String>,
    /// Whether the claims of the user info endpoint are fetched too.
    pub fetches_user_info: bool,
}

/// The parts of an authorization request that differ with each sign-in.
#[derive(Debug, Clone, Copy)]
pub struct AuthorizationRequest<'a> {
    /// URL that the browser comes back to.
    pub redirect_uri: &'a str,
    /// Value that ties the answer to the browser.
    pub state: &'a str,
    /// Value that the ID token must repeat.
    pub nonce: &'a str,
    /// Challenge of PKCE by the method S256.
    pub code_challenge: &'a str,
}

/// The code that a browser brought back.
#[derive(Debug, Clone, Copy)]
pub struct ReturnedCode<'a> {
    /// The code.
    pub code: &'a str,
    /// The `iss` parameter beside it (RFC 9207).
    pub issuer: Option<&'a str>,
    /// Redirect URL of the authorization request.
    pub redirect_uri: &'a str,
    /// Verifier of PKCE.
    pub code_verifier: &'a str,
}

/// Statement of an issuer about the person who signed in; unverified.
#[derive(Debug)]
pub struct IssuedIdentity {
    /// The ID token.
    pub id_token: Secret,
    /// The response of the user info endpoint, if it was to be fetched.
    pub user_info: Option<Bytes>,
}

impl IssuerClient {
    /// Creates the client of the issuer with this URL. `jwks_url` replaces the URL of the keys in
    /// its metadata.
    ///
    /// # Errors
    /// Returns a problem if a URL has no origin.
    pub fn new(
        egress: EgressClient,
        issuer: &str,
        jwks_url: Option<&str>,
    ) -> Result<Self, Problem> {
        let configured = std::iter::once(issuer).chain(jwks_url);
        let origins = configured.map(|url| {
            Origin::parse(url).map_err(|error| {
                Problem::new("issuer", error.to_string())
                    .with_help("write it as `https://HOST/PATH`")
            })
        });
        let address_policy = AddressPolicy::new(origins.collect::<Result<_, _>>()?, false);
        Ok(Self {
            http: OAuthHttpClient { egress, address_policy },
            issuer: issuer.to_owned(),
            jwks_url: jwks_url.map(str::to_owned),
            metadata: Mutex::default(),
        })
    }

    /// Fetches the signing keys of the issuer, as JWKS.
    ///
    /// # Errors
    /// A [`TokenError`] if the metadata or the keys cannot be had.
    pub async fn fetch_jwks(&self) -> Result<Bytes, TokenError> {
        let (url, named_by) = if let Some(url) = &self.jwks_url {
            (url.clone(), "the configuration")
        } else {
            // Fetched anew, because this finds keys that have moved.
            let metadata = self.fetch_metadata().await?;
            let url = metadata.jwks_uri.clone().ok_or_else(|| {
                TokenError::malformed("has metadata without `jwks_uri`")
                    .with_help("set `jwks` in the configuration")
            })?;
            (url, ISSUER)
        };
        let target = RequestTarget { url: &url, role: "its keys", named_by };
        let found = self.http.get_document(target, HeaderMap::new()).await?;
        found.ok_or_else(|| TokenError::malformed(format!("has no keys at `{url}`")))
    }

    /// Returns the URL to send a browser to.
    ///
    /// # Errors
    /// A [`TokenError`] if the issuer has no metadata, no login page or no PKCE by S256.
    pub async fn authorization_url(
        &self,
        sign_in: &SignInClient,
        request: AuthorizationRequest<'_>,
    ) -> Result<String, TokenError> {
        let metadata = self.recent_metadata().await?;
        // OpenID providers may leave the methods out of their metadata, and support it nevertheless.
        if metadata.code_challenge_methods_supported.is_some() && !metadata.supports_pkce() {
            return Err(TokenError::blocked("does not support PKCE by the method S256"));
        }
        let page = metadata.authorization_endpoint.as_deref();
        let page =
            page.ok_or_else(|| TokenError::malformed("has metadata without a login page"))?;
        self.http.address_policy.check_browser_url(page)?;
        let mut url = Url::parse(page)
            .map_err(|_| TokenError::malformed("has a login page that is not a valid URL"))?;
        url.query_pairs_mut()
            .append_pair("response_type", "code")
            .append_pair("client_id", &sign_in.client.client_id)
            .append_pair("redirect_uri", request.redirect_uri)
            .append_pair("scope", &sign_in.requested_scopes())
            .append_pair("state", request.state)
            .append_pair("nonce", request.nonce)
            .append_pair("code_challenge", request.code_challenge)
            .append_pair("code_challenge_method", "S256");
        Ok(url.into())
    }

    /// Exchanges a code for what the issuer says of the person.
    ///
    /// # Errors
    /// A [`TokenError`] if another issuer answered, or if this one refuses the code.
    pub async fn exchange_code(
        &self,
        sign_in: &SignInClient,
        returned: ReturnedCode<'_>,
        now: WallTime,
    ) -> Result<IssuedIdentity, TokenError> {
        let metadata = self.recent_metadata().await?;
        let is_required = metadata.authorization_response_iss_parameter_supported == Some(true);
        let is_same = match returned.issuer {
            Some(issuer) => issuer == self.issuer,
            None => !is_required,
        };
        if !is_same {
            return Err(TokenError::blocked("is not the one that answered"));
        }
        let ConfiguredClient { client_id, auth } = sign_in.client.clone();
        let client = OAuthClient { client_id, auth, auth_method: None };
        let grant = vec![
            ("grant_type", "authorization_code".to_owned()),
            ("code", returned.code.to_owned()),
            ("redirect_uri", returned.redirect_uri.to_owned()),
            ("code_verifier", returned.code_verifier.to_owned()),
        ];
        let tokens = request_token(&self.http, &metadata, (&client, now), grant).await?;
        let id_token = tokens.id_token.ok_or_else(|| TokenError::malformed("sent no ID token"))?;
        let user_info = if sign_in.fetches_user_info {
            Some(self.fetch_user_info(&metadata, &tokens.access_token).await?)
        } else {
            None
        };
        Ok(IssuedIdentity { id_token, user_info })
    }

    async fn fetch_user_info(
        &self,
        metadata: &AuthorizationServerMetadata,
        access_token: &Secret,
    ) -> Result<Bytes, TokenError> {
        let url = metadata.userinfo_endpoint.as_deref();
        let url = url.ok_or_else(|| TokenError::malformed("has no user info endpoint"))?;
        let token = AccessToken::new(access_token.expose(), 0, None);
        let token = token.ok_or_else(|| TokenError::malformed("sent an invalid access token"))?;
        let mut headers = HeaderMap::new();
        headers.insert(header::AUTHORIZATION, token.authorization_header());
        let target = RequestTarget { url, role: "the user info endpoint", named_by: ISSUER };
        let found = self.http.get_document(target, headers).await?;
        found
            .ok_or_else(|| TokenError::malformed("has a user info endpoint that refused its token"))
    }

    async fn recent_metadata(&self) -> Result<Arc<AuthorizationServerMetadata>, TokenError> {
        let stored = self.metadata.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some((fetched_at, metadata)) = stored
            && fetched_at.elapsed() < METADATA_LIFETIME
        {
            return Ok(metadata);
        }
        self.fetch_metadata().await
    }

    async fn fetch_metadata(&self) -> Result<Arc<AuthorizationServerMetadata>, TokenError> {
        let found = fetch_server_metadata(&self.http, &self.issuer, |said| said == self.issuer);
        let found = found.await?.ok_or_else(|| {
            TokenError::malformed("publishes no metadata at the standard URLs")
                .with_help("set `jwks` in the configuration")
        })?;
        let metadata = Arc::new(found);
        let entry = Some((Instant::now(), Arc::clone(&metadata)));
        *self.metadata.lock().unwrap_or_else(PoisonError::into_inner) = entry;
        Ok(metadata)
    }
}

impl SignInClient {
    fn requested_scopes(&self) -> String {
        let others = self.scopes.iter().map(String::as_str).filter(|scope| *scope != "openid");
        std::iter::once("openid").chain(others).collect::<Vec<_>>().join(" ")
    }
}
