//! Connects the server's ports to token issuers with the OAuth client: their keys, and signing people
//! in.
//!
//! It is in this crate because no other depends on both the server's ports and `oauth-client`.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use config::{AccessTokensConfig, Config, IssuerConfig, IssuerSignInConfig};
use egress::EgressClient;
use oauth_client::{ConfiguredClient, IssuerClient, SignInClient, TokenError};
use server_core::token_issuers::{
    AuthorizationRequest, IssuedIdentity, ReturnedCode, SignInProvider,
};
use server_core::{IssuerTrust, JwksProvider};
use tool::{BoxFuture, Clock, Problem};

use crate::mcp_endpoint::client_authentication;
use crate::source_factory::SourceFactory;

/// Returns the trusted token issuers with the connection to them. An issuer that cannot be used is
/// left out.
pub(crate) fn trusted_issuers(config: &Config, factory: &SourceFactory) -> Option<IssuerTrust> {
    let AccessTokensConfig { resource, issuers } = config.access_tokens.clone()?;
    let (mut connected, mut trusted) = (HashMap::new(), Vec::new());
    for issuer in issuers {
        match ConnectedIssuer::new(&issuer, &factory.egress) {
            Ok(one) => {
                connected.insert(issuer.issuer.iss.clone(), one);
                trusted.push(issuer.issuer);
            }
            Err(problem) => {
                let reason = problem.message;
                tracing::error!(issuer = issuer.issuer.name, reason, "cannot use an issuer");
            }
        }
    }
    let connection =
        Arc::new(IssuerConnection { issuers: connected, clock: Arc::clone(&factory.clock) });
    let key_source = Arc::clone(&connection) as Arc<dyn JwksProvider>;
    Some(IssuerTrust { resource, issuers: trusted, key_source, sign_in: Some(connection) })
}

/// The clients of all issuers, by the `iss` of their tokens.
#[derive(Debug)]
struct IssuerConnection {
    issuers: HashMap<String, ConnectedIssuer>,
    clock: Arc<dyn Clock>,
}

#[derive(Debug)]
struct ConnectedIssuer {
    client: IssuerClient,
    jwks_url: Option<String>,
    sign_in: Option<SignInClient>,
}

impl ConnectedIssuer {
    fn new(config: &IssuerConfig, egress: &EgressClient) -> Result<Self, Problem> {
        let egress = egress.with_separate_pool();
        let jwks_url = config.jwks_url.clone();
        let client = IssuerClient::new(egress, &config.issuer.iss, jwks_url.as_deref())?;
        let sign_in = config.sign_in.as_ref().map(sign_in_client).transpose()?;
        Ok(Self { client, jwks_url, sign_in })
    }
}

fn sign_in_client(config: &IssuerSignInConfig) -> Result<SignInClient, Problem> {
    let auth = client_authentication(&config.client_auth)?;
    let client = ConfiguredClient { client_id: config.client_id.clone(), auth };
    let (scopes, fetches_user_info) = (config.scopes.clone(), config.fetches_user_info);
    Ok(SignInClient { client, scopes, fetches_user_info })
}

impl IssuerConnection {
    fn find_issuer(&self, issuer: &str) -> Result<&ConnectedIssuer, String> {
        self.issuers.get(issuer).ok_or_else(|| "it is not configured".to_owned())
    }

    fn find_sign_in(&self, issuer: &str) -> Result<(&IssuerClient, &SignInClient), String> {
        let found = self.find_issuer(issuer)?;
        let sign_in = found.sign_in.as_ref().ok_or("it has no `sign_in`")?;
        Ok((&found.client, sign_in))
    }
}

fn describe_error(error: TokenError) -> String {
    match error.help {
        Some(help) => format!("it {}; {help}", error.message),
        None => format!("it {}", error.message),
    }
}

impl JwksProvider for IssuerConnection {
    fn fetch_jwks<'a>(&'a self, issuer: &'a str) -> BoxFuture<'a, Result<Bytes, String>> {
        Box::pin(async move {
            self.find_issuer(issuer)?.client.fetch_jwks().await.map_err(describe_error)
        })
    }

    fn jwks_url(&self, issuer: &str) -> Option<&str> {
        self.issuers.get(issuer)?.jwks_url.as_deref()
    }
}

impl SignInProvider for IssuerConnection {
    fn authorization_url<'a>(
        &'a self,
        issuer: &'a str,
        request: AuthorizationRequest<'a>,
    ) -> BoxFuture<'a, Result<String, String>> {
        let AuthorizationRequest { redirect_uri, state, nonce, code_challenge } = request;
        let request =
            oauth_client::AuthorizationRequest { redirect_uri, state, nonce, code_challenge };
        Box::pin(async move {
            let (client, sign_in) = self.find_sign_in(issuer)?;
            client.authorization_url(sign_in, request).await.map_err(describe_error)
        })
    }

    fn exchange_code<'a>(
        &'a self,
        issuer: &'a str,
        returned: ReturnedCode<'a>,
    ) -> BoxFuture<'a, Result<IssuedIdentity, String>> {
        let ReturnedCode { code, issuer: answered_by, redirect_uri, code_verifier, .. } = returned;
        let returned =
            oauth_client::ReturnedCode { code, issuer: answered_by, redirect_uri, code_verifier };
        Box::pin(async move {
            let (client, sign_in) = self.find_sign_in(issuer)?;
            let now = self.clock.wall_now();
            let issued = client.exchange_code(sign_in, returned, now).await;
            let oauth_client::IssuedIdentity { id_token, user_info } =
                issued.map_err(describe_error)?;
            Ok(IssuedIdentity { id_token, user_info })
        })
    }
}
