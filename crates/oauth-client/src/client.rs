//! Client authentication at the token endpoint: with a secret or a signed assertion.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderMap, HeaderValue, header};
use serde_json::json;
use tool::{Secret, Wall};
use uuid::Uuid;

use super::metadata::Server;
use super::{Fault, Proof};

/// Lifetime of a signed assertion in seconds.
const HOLDS: u64 = 60;

/// OAuth client of one authorization server.
#[derive(Debug, Clone)]
pub(crate) struct Client {
    pub(super) id: String,
    pub(super) proof: Proof,
    /// Authentication method that was registered.
    pub(super) method: Option<String>,
}

/// Headers and form fields that authenticate the client.
#[derive(Default)]
pub(super) struct Signed {
    pub(super) headers: HeaderMap,
    pub(super) fields: Vec<(&'static str, String)>,
}

impl Client {
    /// Authenticates a request with a method that the server supports.
    pub(super) fn sign(&self, server: &Server, now: Wall) -> Result<Signed, Fault> {
        let mut signed = Signed::default();
        match &self.proof {
            Proof::None => signed.fields.push(("client_id", self.id.clone())),
            Proof::Secret(secret) => match self.method(server)? {
                "client_secret_basic" => {
                    signed.headers.insert(header::AUTHORIZATION, basic(&self.id, secret)?);
                }
                "client_secret_post" => {
                    signed.fields.push(("client_id", self.id.clone()));
                    signed.fields.push(("client_secret", secret.open().to_owned()));
                }
                _ => signed.fields.push(("client_id", self.id.clone())),
            },
            Proof::Key(key) => {
                let algorithms = server.token_endpoint_auth_signing_alg_values_supported.as_deref();
                if algorithms.is_some_and(|all| all.iter().all(|it| it != key.algorithm())) {
                    let message = format!(
                        "has an authorization server that does not take signatures by {}",
                        key.algorithm()
                    );
                    return Err(Fault::refused(message).fix("register a key of another kind"));
                }
                let now = now.0 / 1000;
                // The audience is the issuer (RFC 7523bis), so that no other server can use the
                // assertion.
                let claims = json!({"iss": self.id, "sub": self.id, "aud": server.issuer,
                    "jti": Uuid::new_v4().to_string(), "iat": now, "exp": now + HOLDS});
                let assertion = key
                    .sign(&claims)
                    .ok_or_else(|| Fault::refused("has a key that cannot sign"))?;
                let kind = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";
                signed.fields.push(("client_id", self.id.clone()));
                signed.fields.push(("client_assertion_type", kind.to_owned()));
                signed.fields.push(("client_assertion", assertion));
            }
        }
        Ok(signed)
    }

    /// Returns the method for a secret: the registered one, else one that the server supports, else
    /// OAuth's default.
    fn method(&self, server: &Server) -> Result<&'static str, Fault> {
        const METHODS: [&str; 3] = ["client_secret_basic", "client_secret_post", "none"];
        if let Some(registered) = &self.method {
            return METHODS.into_iter().find(|it| it == registered).ok_or_else(|| {
                Fault::refused("is registered with a way to prove itself that is not known here")
            });
        }
        let Some(taken) = &server.token_endpoint_auth_methods_supported else {
            return Ok("client_secret_basic");
        };
        METHODS.into_iter().find(|it| taken.iter().any(|taken| taken == it)).ok_or_else(|| {
            Fault::refused("has an authorization server that takes no client secret")
                .fix("give the client a private key, as the server's metadata say")
        })
    }
}

/// Builds the basic authentication header; RFC 6749 2.3.1 requires form encoding of both parts.
fn basic(id: &str, secret: &Secret) -> Result<HeaderValue, Fault> {
    let encoded =
        |text: &str| url::form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>();
    let pair = STANDARD.encode(format!("{}:{}", encoded(id), encoded(secret.open())));
    let value = HeaderValue::try_from(format!("Basic {pair}"));
    let mut value = value.map_err(|_| Fault::refused("has a client secret that cannot be sent"))?;
    value.set_sensitive(true);
    Ok(value)
}

#[cfg(test)]
mod tests {
    use http::header;
    use tool::{Secret, Wall};

    use super::{Client, Proof};
    use crate::metadata::Server;

    fn client(method: Option<&str>) -> Client {
        let proof = Proof::Secret(Secret::new("a b&:é"));
        Client { id: "i:d".to_owned(), proof, method: method.map(str::to_owned) }
    }

    fn server(methods: Option<&[&str]>) -> Server {
        let methods = methods.map(|all| all.iter().map(|&it| it.to_owned()).collect());
        Server { token_endpoint_auth_methods_supported: methods, ..Server::default() }
    }

    #[test]
    fn a_secret_goes_over_as_the_server_takes_it() {
        let way = |client: &Client, methods: Option<&[&str]>| {
            let signed = client.sign(&server(methods), Wall(0)).unwrap();
            let basic = signed.headers.contains_key(header::AUTHORIZATION);
            (basic, signed.fields.iter().map(|(name, _)| *name).collect::<Vec<_>>())
        };
        assert_eq!(way(&client(None), None), (true, vec![]));
        assert_eq!(way(&client(None), Some(&["none", "client_secret_basic"])), (true, vec![]));
        let post = (false, vec!["client_id", "client_secret"]);
        assert_eq!(way(&client(None), Some(&["client_secret_post"])), post);
        assert_eq!(way(&client(Some("client_secret_post")), None), post);
        assert_eq!(way(&client(None), Some(&["none"])), (false, vec!["client_id"]));
        assert!(client(None).sign(&server(Some(&["tls_client_auth"])), Wall(0)).is_err());
    }

    #[test]
    fn what_stands_in_basic_is_encoded_first() {
        let signed = client(None).sign(&server(None), Wall(0)).unwrap();
        let value = signed.headers[header::AUTHORIZATION].clone();
        assert!(value.is_sensitive());
        // `i%3Ad:a+b%26%3A%C3%A9`
        assert_eq!(value.to_str().unwrap(), "Basic aSUzQWQ6YStiJTI2JTNBJUMzJUE5");
    }
}
