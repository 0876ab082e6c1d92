//! Client authentication at the token endpoint: with a secret or a signed assertion.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderMap, HeaderValue, header};
use serde_json::json;
use tool::{Secret, WallTime};
use uuid::Uuid;

use super::metadata::AuthorizationServerMetadata;
use super::{ClientAuth, TokenError};

/// Lifetime of a signed assertion in seconds.
const ASSERTION_LIFETIME_SECS: u64 = 60;

/// OAuth client of one authorization server.
#[derive(Debug, Clone)]
pub(crate) struct OAuthClient {
    pub(super) client_id: String,
    pub(super) auth: ClientAuth,
    /// Authentication method that was registered.
    pub(super) auth_method: Option<String>,
}

/// Headers and form fields that authenticate the client.
#[derive(Default)]
pub(super) struct AuthenticatedFields {
    pub(super) headers: HeaderMap,
    pub(super) fields: Vec<(&'static str, String)>,
}

impl OAuthClient {
    /// Authenticates a request with a method that the server supports.
    pub(super) fn authenticate_request(
        &self,
        server: &AuthorizationServerMetadata,
        now: WallTime,
    ) -> Result<AuthenticatedFields, TokenError> {
        let mut authenticated = AuthenticatedFields::default();
        match &self.auth {
            ClientAuth::Public => authenticated.fields.push(("client_id", self.client_id.clone())),
            ClientAuth::Secret(secret) => match self.secret_method(server)? {
                "client_secret_basic" => {
                    authenticated
                        .headers
                        .insert(header::AUTHORIZATION, basic_auth_header(&self.client_id, secret)?);
                }
                "client_secret_post" => {
                    authenticated.fields.push(("client_id", self.client_id.clone()));
                    authenticated.fields.push(("client_secret", secret.expose().to_owned()));
                }
                _ => authenticated.fields.push(("client_id", self.client_id.clone())),
            },
            ClientAuth::PrivateKey(key) => {
                let algorithms = server.token_endpoint_auth_signing_alg_values_supported.as_deref();
                if algorithms.is_some_and(|all| all.iter().all(|it| it != key.algorithm())) {
                    let message = format!(
                        "has an authorization server that does not support {} signatures",
                        key.algorithm()
                    );
                    return Err(TokenError::request_refused(message)
                        .with_help("register a key of another type"));
                }
                let now = now.0 / 1000;
                // The audience is the issuer (RFC 7523bis), so that no other server can use the
                // assertion.
                let claims = json!({"iss": self.client_id, "sub": self.client_id, "aud": server.issuer,
                    "jti": Uuid::new_v4().to_string(), "iat": now, "exp": now + ASSERTION_LIFETIME_SECS});
                let assertion = key.sign_jwt(&claims).ok_or_else(|| {
                    TokenError::request_refused(
                        "has a private key that cannot \
                        create signatures",
                    )
                })?;
                let kind = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";
                authenticated.fields.push(("client_id", self.client_id.clone()));
                authenticated.fields.push(("client_assertion_type", kind.to_owned()));
                authenticated.fields.push(("client_assertion", assertion));
            }
        }
        Ok(authenticated)
    }

    /// Returns the method for a secret: the registered one, else one that the server supports, else
    /// OAuth's default.
    fn secret_method(
        &self,
        server: &AuthorizationServerMetadata,
    ) -> Result<&'static str, TokenError> {
        const METHODS: [&str; 3] = ["client_secret_basic", "client_secret_post", "none"];
        if let Some(registered_method) = &self.auth_method {
            return METHODS.into_iter().find(|it| it == registered_method).ok_or_else(|| {
                TokenError::request_refused(
                    "is registered with an unsupported client authentication method",
                )
            });
        }
        let Some(supported) = &server.token_endpoint_auth_methods_supported else {
            return Ok("client_secret_basic");
        };
        METHODS.into_iter().find(|it| supported.iter().any(|taken| taken == it)).ok_or_else(|| {
            TokenError::request_refused(
                "has an authorization server that does not support client \
                secrets",
            )
            .with_help("use a private key, which the server's metadata requires")
        })
    }
}

/// Builds the basic authentication header; RFC 6749 2.3.1 requires form encoding of both parts.
fn basic_auth_header(id: &str, secret: &Secret) -> Result<HeaderValue, TokenError> {
    let encoded =
        |text: &str| url::form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>();
    let pair = STANDARD.encode(format!("{}:{}", encoded(id), encoded(secret.expose())));
    let value = HeaderValue::try_from(format!("Basic {pair}"));
    let mut value = value.map_err(|_| {
        TokenError::request_refused(
            "has a client secret that is not a valid header \
            value",
        )
    })?;
    value.set_sensitive(true);
    Ok(value)
}

#[cfg(test)]
mod tests {
    use http::header;
    use tool::{Secret, WallTime};

    use super::{ClientAuth, OAuthClient};
    use crate::metadata::AuthorizationServerMetadata;

    fn client(method: Option<&str>) -> OAuthClient {
        let proof = ClientAuth::Secret(Secret::new("a b&:é"));
        OAuthClient {
            client_id: "i:d".to_owned(),
            auth: proof,
            auth_method: method.map(str::to_owned),
        }
    }

    fn server(methods: Option<&[&str]>) -> AuthorizationServerMetadata {
        let methods = methods.map(|all| all.iter().map(|&it| it.to_owned()).collect());
        AuthorizationServerMetadata {
            token_endpoint_auth_methods_supported: methods,
            ..AuthorizationServerMetadata::default()
        }
    }

    #[test]
    fn a_secret_goes_over_as_the_server_takes_it() {
        let way = |client: &OAuthClient, methods: Option<&[&str]>| {
            let signed = client.authenticate_request(&server(methods), WallTime(0)).unwrap();
            let basic = signed.headers.contains_key(header::AUTHORIZATION);
            (basic, signed.fields.iter().map(|(name, _)| *name).collect::<Vec<_>>())
        };
        assert_eq!(way(&client(None), None), (true, vec![]));
        assert_eq!(way(&client(None), Some(&["none", "client_secret_basic"])), (true, vec![]));
        let post = (false, vec!["client_id", "client_secret"]);
        assert_eq!(way(&client(None), Some(&["client_secret_post"])), post);
        assert_eq!(way(&client(Some("client_secret_post")), None), post);
        assert_eq!(way(&client(None), Some(&["none"])), (false, vec!["client_id"]));
        assert!(
            client(None)
                .authenticate_request(&server(Some(&["tls_client_auth"])), WallTime(0))
                .is_err()
        );
    }

    #[test]
    fn what_stands_in_basic_is_encoded_first() {
        let signed = client(None).authenticate_request(&server(None), WallTime(0)).unwrap();
        let value = signed.headers[header::AUTHORIZATION].clone();
        assert!(value.is_sensitive());
        // `i%3Ad:a+b%26%3A%C3%A9`
        assert_eq!(value.to_str().unwrap(), "Basic aSUzQWQ6YStiJTI2JTNBJUMzJUE5");
    }
}
