//! Dynamic client registration (RFC 7591) at an authorization server.

use std::collections::BTreeSet;

use serde::Deserialize;
use serde_json::json;
use tool::display_text::escape_and_truncate;

use super::TokenError;
use super::http_client::{RequestTarget, describe_target, parse_json};
use super::metadata::DiscoveredServer;
use super::stored_credentials::ClientRegistration;
use super::token_provider::TokenProvider;
use super::token_renewal::scope_parameter;

#[derive(Deserialize)]
struct RegistrationResponse {
    client_id: String,
    client_secret: Option<String>,
    token_endpoint_auth_method: Option<String>,
}

#[derive(Deserialize)]
struct RegistrationErrorBody {
    error: String,
    error_description: Option<String>,
}

impl RegistrationErrorBody {
    fn reason(self) -> String {
        let description = self.error_description.unwrap_or_default();
        escape_and_truncate(&format!("{} {description}", self.error), 200)
    }
}

impl TokenProvider {
    /// Registers a client (RFC 7591).
    pub(super) async fn register_client(
        &self,
        server: &DiscoveredServer,
        (redirect_uri, scopes): (&str, &BTreeSet<String>),
    ) -> Result<ClientRegistration, TokenError> {
        let Some(url) = server.server.registration_endpoint.as_deref() else {
            let message = "has an authorization server without dynamic client registration";
            let fix = "register a client there and set its `client_id` under `oauth`";
            return Err(TokenError::request_refused(message).with_help(fix));
        };
        let supported_methods = server.server.token_endpoint_auth_methods_supported.as_deref();
        let supported_methods = supported_methods.unwrap_or_default();
        let preferred_methods = ["none", "client_secret_basic", "client_secret_post"];
        let method = preferred_methods
            .into_iter()
            .find(|method| supported_methods.iter().any(|name| name == method));
        let mut client = json!({
            "client_name": "Toolkeep",
            "redirect_uris": [redirect_uri],
            "grant_types": ["authorization_code", "refresh_token"],
            "response_types": ["code"],
            "application_type": "native",
            "token_endpoint_auth_method": method.unwrap_or("none"),
        });
        if let (Some((_, scope)), Some(members)) = (scope_parameter(scopes), client.as_object_mut())
        {
            members.insert("scope".to_owned(), json!(scope));
        }
        let at = RequestTarget {
            url,
            role: "the registration endpoint",
            named_by: "the authorization server",
        };
        let answer = self.http_client.post_json(at, &client).await?;
        if !answer.status.is_success() {
            let body: Option<RegistrationErrorBody> = serde_json::from_slice(&answer.body).ok();
            let reason = body
                .map_or_else(|| format!("HTTP {}", answer.status), RegistrationErrorBody::reason);
            let message = format!("{} rejected the registration: {reason}", describe_target(at));
            let fix = "register a client there by hand and set its `client_id` under `oauth`";
            return Err(TokenError::request_refused(message).with_help(fix));
        }
        let RegistrationResponse { client_id, client_secret, token_endpoint_auth_method } =
            parse_json(at, &answer.body).map_err(|_| {
                TokenError::malformed(format!(
                    "{} returned an invalid client registration",
                    describe_target(at)
                ))
            })?;
        let client_secret =
            client_secret.filter(|_| token_endpoint_auth_method.as_deref() != Some("none"));
        let auth_method = token_endpoint_auth_method.filter(|_| client_secret.is_some());
        Ok(ClientRegistration {
            client_id,
            client_secret,
            auth_method,
            redirect_uri: redirect_uri.to_owned(),
        })
    }
}
