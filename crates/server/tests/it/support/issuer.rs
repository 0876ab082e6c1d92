//! An issuer of tokens in this process: it signs, and publishes its keys.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use identity::{Algorithm, Grant, Issuer};
use serde_json::{Value, json};
use server_core::{KeySource, Trusted};
use tool::{Boxed, Level, Org};

use super::{Client, Server, Setup};

/// What tokens are for.
pub(crate) const HERE: &str = "https://tools.example/mcp";
/// Whose they are.
pub(crate) const ISSUER: &str = "https://login.example";
/// Seconds of the tests' clock.
pub(crate) const NOW: u64 = 1_000_000_000;

pub(crate) fn url(bytes: &[u8]) -> String {
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
            "x": url(&point[1..33]), "y": url(&point[33..])})
    }

    pub(crate) fn sign(&self, head: &Value, claims: &Value) -> String {
        let said =
            format!("{}.{}", url(head.to_string().as_bytes()), url(claims.to_string().as_bytes()));
        let signature = self.key.sign(&SystemRandom::new(), said.as_bytes()).unwrap();
        format!("{said}.{}", url(signature.as_ref()))
    }

    pub(crate) fn token(&self, claims: &Value) -> String {
        self.sign(&json!({"alg": "ES256", "kid": self.kid, "typ": "at+jwt"}), claims)
    }
}

/// What it publishes, and how often it was asked.
#[derive(Debug, Default)]
pub(crate) struct Published {
    pub(crate) keys: Mutex<Vec<Value>>,
    pub(crate) asked: AtomicUsize,
    pub(crate) down: AtomicBool,
}

impl Published {
    pub(crate) fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }
}

impl KeySource for Published {
    fn fetch<'a>(&'a self, issuer: &'a str) -> Boxed<'a, Result<Bytes, String>> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        let down = self.down.load(Ordering::SeqCst) || issuer != ISSUER;
        let keys = json!({"keys": *self.keys.lock().unwrap()}).to_string();
        Box::pin(async move { if down { Err("down".to_owned()) } else { Ok(Bytes::from(keys)) } })
    }
}

pub(crate) fn claims() -> Value {
    json!({"iss": ISSUER, "aud": HERE, "sub": "ann", "scope": "tools", "iat": NOW, "exp": NOW + 600})
}

/// A server that believes an issuer, whose tokens of the scope `tools` are guests', of `admin` admins'.
pub(crate) async fn believing(signer: &Signer) -> (Server, Arc<Published>) {
    believing_of(Setup { offers: super::tools::standard(), ..Setup::default() }, signer).await
}

/// The same of a server that differs in something.
pub(crate) async fn believing_of(setup: Setup, signer: &Signer) -> (Server, Arc<Published>) {
    let server = Server::with(setup).await;
    let published = believes(&server, signer);
    (server, published)
}

/// From here on this one does.
pub(crate) fn believes(server: &Server, signer: &Signer) -> Arc<Published> {
    let published = Arc::new(Published::default());
    published.keys.lock().unwrap().push(signer.jwk());
    server.issuers.set(Some(trusted(&published)));
    published
}

/// The issuer whose keys are published there.
pub(crate) fn trusted(published: &Arc<Published>) -> Trusted {
    let grant = |value: &str, level, roles: &[&str]| Grant {
        claim: "scope".to_owned(),
        value: value.to_owned(),
        level,
        roles: roles.iter().map(|&role| role.to_owned()).collect(),
    };
    let issuer = Issuer {
        name: "corp".to_owned(),
        issuer: ISSUER.to_owned(),
        algorithms: [Algorithm::Es256].into(),
        org: Org::default(),
        orgs: None,
        subject: "sub".to_owned(),
        person: false,
        grants: vec![grant("tools", Level::Guest, &[]), grant("admin", Level::Admin, &["ops"])],
        longest: 3_600_000,
    };
    let keys = Arc::clone(published) as Arc<dyn KeySource>;
    Trusted { resource: HERE.to_owned(), issuers: vec![issuer], keys }
}

pub(crate) fn bearing(server: &Server, token: &str) -> Client {
    server.anyone().with("authorization", &format!("Bearer {token}"))
}
