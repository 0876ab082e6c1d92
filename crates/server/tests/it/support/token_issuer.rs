//! A token issuer in this process: it signs tokens and publishes its keys.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use identity::{ClaimGrant, SignatureAlgorithm, TrustedIssuer};
use serde_json::{Value, json};
use server_core::{IssuerTrust, JwksProvider};
use tool::{BoxFuture, Org, PermissionLevel};

use super::{Client, FixtureServer, ServerSetup};

/// Audience of the tokens.
pub(crate) const RESOURCE: &str = "https://tools.example/mcp";
/// Subject of the tokens.
pub(crate) const ISSUER: &str = "https://login.example";
/// Seconds of the tests' clock.
pub(crate) const NOW: u64 = 1_000_000_000;

pub(crate) fn base64_url(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// A key that signs.
#[derive(Debug)]
pub(crate) struct Signer {
    pub(crate) kid: String,
    key: EcdsaKeyPair,
}

impl Signer {
    pub(crate) fn new(kid: &str) -> Self {
        let key = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).unwrap();
        Self { kid: kid.to_owned(), key }
    }

    pub(crate) fn jwk(&self) -> Value {
        let point = self.key.public_key().as_ref();
        json!({"kty": "EC", "crv": "P-256", "use": "sig", "alg": "ES256", "kid": self.kid,
            "x": base64_url(&point[1..33]), "y": base64_url(&point[33..])})
    }

    pub(crate) fn sign(&self, head: &Value, claims: &Value) -> String {
        let said = format!(
            "{}.{}",
            base64_url(head.to_string().as_bytes()),
            base64_url(claims.to_string().as_bytes())
        );
        let signature = self.key.sign(&SystemRandom::new(), said.as_bytes()).unwrap();
        format!("{said}.{}", base64_url(signature.as_ref()))
    }

    pub(crate) fn token(&self, claims: &Value) -> String {
        self.sign(&json!({"alg": "ES256", "kid": self.kid, "typ": "at+jwt"}), claims)
    }
}

/// Published key set, and the number of its fetches.
#[derive(Debug, Default)]
pub(crate) struct PublishedKeys {
    pub(crate) keys: Mutex<Vec<Value>>,
    pub(crate) fetch_count: AtomicUsize,
    pub(crate) is_down: AtomicBool,
}

impl PublishedKeys {
    pub(crate) fn fetch_count(&self) -> usize {
        self.fetch_count.load(Ordering::SeqCst)
    }
}

impl JwksProvider for PublishedKeys {
    fn fetch_jwks<'a>(&'a self, issuer: &'a str) -> BoxFuture<'a, Result<Bytes, String>> {
        self.fetch_count.fetch_add(1, Ordering::SeqCst);
        let down = self.is_down.load(Ordering::SeqCst) || issuer != ISSUER;
        let keys = json!({"keys": *self.keys.lock().unwrap()}).to_string();
        Box::pin(async move { if down { Err("down".to_owned()) } else { Ok(Bytes::from(keys)) } })
    }
}

pub(crate) fn valid_claims() -> Value {
    json!({"iss": ISSUER, "aud": RESOURCE, "sub": "ann", "scope": "tools", "iat": NOW, "exp": NOW + 600})
}

/// A server that believes an issuer, whose tokens of the scope `tools` are guests', of `admin` admins'.
pub(crate) async fn server_with_issuer(signer: &Signer) -> (FixtureServer, Arc<PublishedKeys>) {
    server_with_issuer_and_setup(
        ServerSetup { offers: super::tools::standard_offers(), ..ServerSetup::default() },
        signer,
    )
    .await
}

/// The same for a server with other options.
pub(crate) async fn server_with_issuer_and_setup(
    setup: ServerSetup,
    signer: &Signer,
) -> (FixtureServer, Arc<PublishedKeys>) {
    let server = FixtureServer::with_setup(setup).await;
    let published = trust_issuer(&server, signer);
    (server, published)
}

/// From here on this one does.
pub(crate) fn trust_issuer(server: &FixtureServer, signer: &Signer) -> Arc<PublishedKeys> {
    let published = Arc::new(PublishedKeys::default());
    published.keys.lock().unwrap().push(signer.jwk());
    server.issuers.replace(Some(issuer_trust(&published)));
    published
}

/// The issuer whose keys are published there.
pub(crate) fn issuer_trust(published: &Arc<PublishedKeys>) -> IssuerTrust {
    let grant = |value: &str, level, roles: &[&str]| ClaimGrant {
        claim: "scope".to_owned(),
        value: value.to_owned(),
        level,
        roles: roles.iter().map(|&role| role.to_owned()).collect(),
    };
    let issuer = TrustedIssuer {
        name: "corp".to_owned(),
        iss: ISSUER.to_owned(),
        algorithms: [SignatureAlgorithm::Es256].into(),
        org: Org::default(),
        org_claim: None,
        subject_claim: "sub".to_owned(),
        is_person: false,
        grants: vec![
            grant("tools", PermissionLevel::Guest, &[]),
            grant("admin", PermissionLevel::Admin, &["ops"]),
        ],
        max_lifetime_ms: 3_600_000,
        client_id: None,
    };
    let keys = Arc::clone(published) as Arc<dyn JwksProvider>;
    IssuerTrust {
        resource: RESOURCE.to_owned(),
        issuers: vec![issuer],
        key_source: keys,
        sign_in: None,
    }
}

pub(crate) fn client_with_token(server: &FixtureServer, token: &str) -> Client {
    server.keyless_client().with_header("authorization", &format!("Bearer {token}"))
}
