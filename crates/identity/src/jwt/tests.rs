use std::collections::BTreeMap;

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _,
};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use tool::{Org, PermissionLevel, WallTime};

use super::{
    ClaimGrant, JwkSet, JwkSetError, OrgClaim, SignatureAlgorithm, TokenVerificationError,
    TrustedIssuer, UnverifiedJwt,
};
use crate::{CredentialErrorKind, Directory, OrgRecord, PersonaSet, Principal, UserRecord};

mod id_tokens;

/// 2033, in milliseconds.
const NOW: WallTime = WallTime(2_000_000_000_000);
const SECOND: u64 = 2_000_000_000;
const HERE: &str = "https://tools.example/mcp";

fn url(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

struct Signer {
    key: EcdsaKeyPair,
}

impl Signer {
    fn new() -> Self {
        Self { key: EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).unwrap() }
    }

    fn jwk(&self, kid: &str) -> Value {
        let point = self.key.public_key().as_ref();
        let (x, y) = (url(&point[1..33]), url(&point[33..]));
        json!({"kty": "EC", "crv": "P-256", "use": "sig", "alg": "ES256", "kid": kid, "x": x, "y": y})
    }

    fn keys(&self) -> JwkSet {
        set(&json!({"keys": [self.jwk("k1")]})).unwrap()
    }

    fn sign(&self, head: &Value, claims: &Value) -> String {
        let said =
            format!("{}.{}", url(head.to_string().as_bytes()), url(claims.to_string().as_bytes()));
        let signature = self.key.sign(&SystemRandom::new(), said.as_bytes()).unwrap();
        format!("{said}.{}", url(signature.as_ref()))
    }

    fn token(&self, claims: &Value) -> String {
        self.sign(&json!({"alg": "ES256", "kid": "k1", "typ": "at+jwt"}), claims)
    }
}

fn set(value: &Value) -> Result<JwkSet, JwkSetError> {
    JwkSet::parse_set(value.to_string().into())
}

fn issuer() -> TrustedIssuer {
    let grant = |claim: &str, value: &str, level, roles: &[&str]| ClaimGrant {
        claim: claim.to_owned(),
        value: value.to_owned(),
        level,
        roles: roles.iter().map(|&role| role.to_owned()).collect(),
    };
    TrustedIssuer {
        name: "corp".to_owned(),
        iss: "https://login.example".to_owned(),
        algorithms: [SignatureAlgorithm::Es256, SignatureAlgorithm::EdDsa].into(),
        org: Org::default(),
        org_claim: None,
        subject_claim: "sub".to_owned(),
        is_person: false,
        grants: vec![
            grant("scope", "tools:use", PermissionLevel::User, &[]),
            grant("realm.groups", "ops", PermissionLevel::Admin, &["ops"]),
        ],
        max_lifetime_ms: 3_600_000,
        client_id: None,
    }
}

fn claims() -> Value {
    json!({"iss": "https://login.example", "aud": HERE, "sub": "ann", "scope": "openid tools:use",
        "iat": SECOND - 10, "exp": SECOND + 600})
}

/// The claims with one of them changed, or taken out by null.
fn with(name: &str, value: Value) -> Value {
    let mut all = claims();
    let members = all.as_object_mut().unwrap();
    if value.is_null() {
        members.remove(name)
    } else {
        members.insert(name.to_owned(), value)
    };
    all
}

fn judged(
    issuer: &TrustedIssuer,
    keys: &JwkSet,
    token: &str,
) -> Result<Principal, TokenVerificationError> {
    let token = UnverifiedJwt::parse_token(token)?;
    issuer.verify_token(&token, keys, &[HERE], &Directory::default(), NOW)
}

#[test]
fn no_grant_makes_an_owner() {
    let signer = Signer::new();
    let level = |granted| {
        let mut issuer = issuer();
        issuer.grants[0].level = granted;
        judged(&issuer, &signer.keys(), &signer.token(&claims())).unwrap().level()
    };
    assert_eq!(
        (level(PermissionLevel::Owner), level(PermissionLevel::Admin)),
        (PermissionLevel::Admin, PermissionLevel::Admin)
    );
    assert_eq!(level(PermissionLevel::User), PermissionLevel::User, "what is granted counts");
}

#[test]
fn a_subject_that_a_reader_does_not_see_is_refused() {
    let signer = Signer::new();
    let named = |subject: &str| {
        judged(&issuer(), &signer.keys(), &signer.token(&with("sub", json!(subject))))
    };
    for odd in ["ann\u{202e}", "a\u{200b}nn", "ann ", "\u{ff41}nn", "a\nb"] {
        assert_eq!(
            named(odd),
            Err(TokenVerificationError::Rejected(CredentialErrorKind::InvalidSubject)),
            "{odd:?}"
        );
    }
    // Its issuer's letters are its own.
    for good in ["auth0|5f7c", "анна", "анна@corp"] {
        assert_eq!(named(good).unwrap().subject(), format!("corp:{good}"));
    }
}

#[test]
fn a_token_gives_what_is_granted_for_its_claims() {
    let signer = Signer::new();
    let ann = judged(&issuer(), &signer.keys(), &signer.token(&claims())).unwrap();
    assert_eq!(
        (ann.subject(), ann.level(), ann.is_agent()),
        ("corp:ann", PermissionLevel::User, true)
    );
    assert!(ann.is_from_token() && ann.key_id().starts_with("corp:") && ann.roles().is_empty());
    assert_eq!(ann.expires_at(), Some(WallTime((SECOND + 630) * 1_000)));
    let both = with("realm", json!({"groups": ["x", "ops"]}));
    let admin = judged(&issuer(), &signer.keys(), &signer.token(&both)).unwrap();
    assert_eq!(
        (admin.level(), admin.roles()),
        (PermissionLevel::Admin, ["ops".to_owned()].as_slice())
    );
    // One user, one key id, whatever the token.
    assert_eq!(admin.key_id(), ann.key_id());
    let bob = judged(&issuer(), &signer.keys(), &signer.token(&with("sub", json!("bob")))).unwrap();
    assert_ne!(bob.key_id(), ann.key_id());
}

#[test]
fn what_nothing_is_granted_for_may_do_nothing() {
    let signer = Signer::new();
    for scope in [json!(null), json!("tools:user"), json!("Tools:use"), json!(1)] {
        let token = signer.token(&with("scope", scope));
        assert_eq!(judged(&issuer(), &signer.keys(), &token), Err(TokenVerificationError::NoGrant));
    }
}

#[test]
fn each_claim_that_is_wrong_refuses_the_token() {
    let signer = Signer::new();
    let (keys, issuer) = (signer.keys(), issuer());
    for (name, value, reason) in [
        ("iss", json!("https://login.example/"), CredentialErrorKind::UnknownIssuer),
        ("iss", json!(null), CredentialErrorKind::UnknownIssuer),
        ("aud", json!(null), CredentialErrorKind::WrongAudience),
        ("aud", json!("https://tools.example"), CredentialErrorKind::WrongAudience),
        ("aud", json!("https://tools.example/mcp/x"), CredentialErrorKind::WrongAudience),
        ("aud", json!(["https://tools.example/mc", 1]), CredentialErrorKind::WrongAudience),
        ("exp", json!(null), CredentialErrorKind::NoExpiry),
        ("exp", json!("soon"), CredentialErrorKind::Malformed),
        ("exp", json!(SECOND - 30), CredentialErrorKind::Expired),
        ("exp", json!(SECOND + 3_621), CredentialErrorKind::LifetimeTooLong),
        ("nbf", json!(SECOND + 31), CredentialErrorKind::NotYetValid),
        ("iat", json!(SECOND + 31), CredentialErrorKind::NotYetValid),
        ("iat", json!(null), CredentialErrorKind::LifetimeTooLong),
        ("sub", json!(null), CredentialErrorKind::InvalidSubject),
        ("sub", json!(""), CredentialErrorKind::InvalidSubject),
        ("sub", json!("a\0b"), CredentialErrorKind::InvalidSubject),
        ("sub", json!("a".repeat(201)), CredentialErrorKind::InvalidSubject),
        ("at_hash", json!("x"), CredentialErrorKind::NotAnAccessToken),
    ] {
        let mut claims = with(name, value.clone());
        if name == "iat" && value.is_null() {
            claims["exp"] = json!(SECOND + 3_631);
        }
        let verdict = judged(&issuer, &keys, &signer.token(&claims));
        assert_eq!(verdict, Err(TokenVerificationError::Rejected(reason)), "{name} = {value}");
    }
    for (name, value) in [
        ("aud", json!(["x", HERE])),
        ("exp", json!(SECOND - 29)),
        ("exp", json!(2_000_000_600.5)),
        ("nbf", json!(SECOND + 30)),
        ("iat", json!(null)),
    ] {
        let token = signer.token(&with(name, value.clone()));
        assert!(judged(&issuer, &keys, &token).is_ok(), "{name} = {value}");
    }
}

#[test]
fn headers_choose_neither_key_nor_algorithm() {
    let (signer, other) = (Signer::new(), Signer::new());
    let (keys, issuer) = (signer.keys(), issuer());
    let head = |more: Value| {
        let mut head = json!({"alg": "ES256", "kid": "k1"});
        head.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        head
    };
    let mut jwk = other.jwk("k1");
    for (more, reason) in [
        (json!({"jwk": jwk.take()}), CredentialErrorKind::WrongSecret),
        (json!({"jku": "https://evil.example/keys"}), CredentialErrorKind::WrongSecret),
        (json!({"x5u": "https://evil.example/cert"}), CredentialErrorKind::WrongSecret),
        (json!({"alg": "none"}), CredentialErrorKind::AlgorithmNotAllowed),
        (json!({"alg": "HS256"}), CredentialErrorKind::AlgorithmNotAllowed),
        (json!({"alg": "EdDSA"}), CredentialErrorKind::AlgorithmNotAllowed),
        (json!({"alg": "RS256"}), CredentialErrorKind::AlgorithmNotAllowed),
        (json!({"alg": "es256"}), CredentialErrorKind::AlgorithmNotAllowed),
        (json!({"crit": ["exp"]}), CredentialErrorKind::Malformed),
        (json!({"typ": "dpop+jwt"}), CredentialErrorKind::NotAnAccessToken),
        (json!({"kid": 1}), CredentialErrorKind::Malformed),
    ] {
        let token = other.sign(&head(more.clone()), &claims());
        assert_eq!(
            judged(&issuer, &keys, &token),
            Err(TokenVerificationError::Rejected(reason)),
            "{more}"
        );
    }
    let unknown = signer.sign(&head(json!({"kid": "k2"})), &claims());
    assert_eq!(judged(&issuer, &keys, &unknown), Err(TokenVerificationError::UnknownKey));
    // Positive control: what a header says beside is ignored where the right key signed.
    for more in [json!({}), json!({"jku": "https://evil.example/keys"}), json!({"typ": "JWT"})] {
        assert!(judged(&issuer, &keys, &signer.sign(&head(more), &claims())).is_ok());
    }
    let nameless = signer.sign(&json!({"alg": "ES256"}), &claims());
    assert!(judged(&issuer, &keys, &nameless).is_ok());
    // Without a name it must be plain which key is meant.
    let two = set(&json!({"keys": [signer.jwk("k1"), other.jwk("k2")]})).unwrap();
    assert_eq!(
        judged(&issuer, &two, &nameless),
        Err(TokenVerificationError::Rejected(CredentialErrorKind::AlgorithmNotAllowed))
    );
}

#[test]
fn the_algorithm_is_one_that_is_pinned() {
    let signer = Signer::new();
    let token = signer.token(&claims());
    let only = TrustedIssuer { algorithms: [SignatureAlgorithm::Rs256].into(), ..issuer() };
    let refused = Err(TokenVerificationError::Rejected(CredentialErrorKind::AlgorithmNotAllowed));
    assert_eq!(judged(&only, &signer.keys(), &token), refused);
    let ed = Ed25519KeyPair::generate().unwrap();
    let x = url(ed.public_key().as_ref());
    let keys =
        set(&json!({"keys": [{"kty": "OKP", "crv": "Ed25519", "kid": "k1", "x": x}]})).unwrap();
    let said = format!(
        "{}.{}",
        url(br#"{"alg":"EdDSA","kid":"k1"}"#),
        url(claims().to_string().as_bytes())
    );
    let token = format!("{said}.{}", url(ed.sign(said.as_bytes()).as_ref()));
    assert!(judged(&issuer(), &keys, &token).is_ok());
}

#[test]
fn no_changed_letter_of_a_token_holds() {
    let signer = Signer::new();
    let (keys, issuer, token) = (signer.keys(), issuer(), signer.token(&claims()));
    for at in 0..token.len() {
        let mut bytes = token.clone().into_bytes();
        bytes[at] = if bytes[at] == b'A' { b'B' } else { b'A' };
        let text = String::from_utf8(bytes).unwrap();
        assert!(judged(&issuer, &keys, &text).is_err(), "letter {at}");
    }
    for text in [
        "",
        ".",
        "..",
        "a.b.c",
        "....",
        &format!("{token}."),
        &format!("{token}="),
        &format!(" {token}"),
    ] {
        assert!(judged(&issuer, &keys, text).is_err(), "{text}");
    }
    let large = format!("{token}{}", "A".repeat(16 << 10));
    assert_eq!(
        judged(&issuer, &keys, &large),
        Err(TokenVerificationError::Rejected(CredentialErrorKind::Malformed))
    );
    assert!(judged(&issuer, &keys, &token).is_ok());
}

#[test]
fn a_key_that_says_a_thing_twice_is_no_token() {
    let signer = Signer::new();
    let doubled = claims().to_string().replacen('{', r#"{"sub":"root","#, 1);
    let said = format!("{}.{}", url(br#"{"alg":"ES256","kid":"k1"}"#), url(doubled.as_bytes()));
    let signature = signer.key.sign(&SystemRandom::new(), said.as_bytes()).unwrap();
    let token = format!("{said}.{}", url(signature.as_ref()));
    assert_eq!(
        judged(&issuer(), &signer.keys(), &token),
        Err(TokenVerificationError::Rejected(CredentialErrorKind::Malformed))
    );
}

#[test]
fn keys_that_sign_no_token_are_left_out() {
    let good = Signer::new().jwk("k1");
    let changed = |name: &str, value: Value| {
        let mut jwk = good.clone();
        jwk[name] = value;
        jwk
    };
    for bad in [
        json!({"kty": "oct", "kid": "k1", "k": "c2VjcmV0"}),
        json!({"kty": "RSA", "kid": "k1", "n": url(&[0xff; 128]), "e": "AQAB"}),
        changed("use", json!("enc")),
        changed("key_ops", json!(["sign"])),
        changed("alg", json!("ES256K")),
        changed("crv", json!("secp256k1")),
        changed("x", json!("AAAA")),
        json!("text"),
    ] {
        assert_eq!(set(&json!({"keys": [bad]})).unwrap_err(), JwkSetError::Empty, "{bad}");
    }
    assert_eq!(set(&json!({"keys": vec![good.clone(); 101]})).unwrap_err(), JwkSetError::TooMany);
    assert!(matches!(set(&json!([])), Err(JwkSetError::Invalid(_))));
    assert!(set(&json!({"keys": [good]})).is_ok());
}

#[test]
fn the_organisation_and_the_directory_count_for_tokens_too() {
    let signer = Signer::new();
    let acme: Org = "acme".parse().unwrap();
    let orgs = BTreeMap::from([("t1".to_owned(), acme.clone())]);
    let org_claim = Some(OrgClaim { claim: "tenant".to_owned(), orgs });
    let issuer = TrustedIssuer { org_claim, ..issuer() };
    let judged = |claims: &Value, stored: &[(String, String)]| {
        let pairs = stored.iter().map(|(key, text)| (key.as_str(), text.as_bytes()));
        let (directory, problems) = Directory::from_rows(PersonaSet::default(), pairs);
        assert_eq!(problems, []);
        let token = signer.token(claims);
        let token = UnverifiedJwt::parse_token(&token).unwrap();
        issuer.verify_token(&token, &signer.keys(), &[HERE], &directory, NOW)
    };
    let ours = with("tenant", json!("t1"));
    assert_eq!(judged(&ours, &[]).unwrap().org(), &acme);
    assert_eq!(
        judged(&with("tenant", json!("t2")), &[]),
        Err(TokenVerificationError::Rejected(CredentialErrorKind::InvalidSubject))
    );
    assert_eq!(
        judged(&claims(), &[]),
        Err(TokenVerificationError::Rejected(CredentialErrorKind::InvalidSubject))
    );
    let org = OrgRecord { name: acme.clone(), description: String::new(), disabled_at: Some(NOW) };
    let user = UserRecord {
        org: acme.clone(),
        subject: "corp:ann".to_owned(),
        level: PermissionLevel::User,
        roles: vec![],
        persona: None,
        disabled_at: Some(NOW),
    };
    let disabled = Err(TokenVerificationError::Rejected(CredentialErrorKind::Disabled));
    assert_eq!(
        judged(&ours, &[(OrgRecord::store_key(&acme), serde_json::to_string(&org).unwrap())]),
        disabled
    );
    assert_eq!(
        judged(
            &ours,
            &[(UserRecord::store_key(&acme, "corp:ann"), serde_json::to_string(&user).unwrap())]
        ),
        disabled
    );
}
