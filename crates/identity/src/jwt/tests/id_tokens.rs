//! Tests of ID tokens, and of what a sign-in is worth later.

use serde_json::{Value, json};
use tool::{Org, PermissionLevel, WallTime};

use super::{NOW, SECOND, Signer, issuer};
use crate::{
    CredentialErrorKind, Directory, PersonaSet, SignInExpectation, SignedInUser,
    TokenVerificationError, TrustedIssuer, UnverifiedJwt, UserRecord,
};

const CLIENT: &str = "toolkeep-console";

fn console_issuer() -> TrustedIssuer {
    TrustedIssuer { client_id: Some(CLIENT.to_owned()), ..issuer() }
}

fn id_claims() -> Value {
    json!({"iss": "https://login.example", "aud": CLIENT, "sub": "ann", "nonce": "n1", "at_hash": "x",
        "realm": {"groups": ["ops", "all"]}, "iat": SECOND - 10, "exp": SECOND + 300_000})
}

fn verify(issuer: &TrustedIssuer, claims: &Value) -> Result<SignedInUser, TokenVerificationError> {
    let signer = Signer::new();
    let text = signer.token(claims);
    let token = UnverifiedJwt::parse_token(&text)?;
    let expected = SignInExpectation { nonce: "n1", now: NOW };
    issuer.verify_id_token(&token, &signer.keys(), expected)
}

fn later(milliseconds: u64) -> WallTime {
    WallTime(NOW.0 + milliseconds)
}

#[test]
fn an_id_token_is_for_one_client_and_one_sign_in() {
    assert!(verify(&console_issuer(), &id_claims()).is_ok());
    let changed = |name: &str, value: Value| {
        let mut claims = id_claims();
        claims[name] = value;
        verify(&console_issuer(), &claims).map(drop)
    };
    let rejected = |kind: CredentialErrorKind| Err(TokenVerificationError::Rejected(kind));
    for audience in [json!("other"), json!([]), json!(["other", CLIENT]), json!(null)] {
        assert_eq!(
            changed("aud", audience.clone()),
            rejected(CredentialErrorKind::WrongAudience),
            "{audience}"
        );
    }
    assert_eq!(changed("azp", json!("other")), rejected(CredentialErrorKind::WrongAudience));
    assert_eq!(changed("azp", json!(CLIENT)), Ok(()));
    for nonce in [json!("n2"), json!(null), json!(1)] {
        assert_eq!(changed("nonce", nonce), rejected(CredentialErrorKind::WrongNonce));
    }
    assert_eq!(
        changed("iss", json!("https://evil.example")),
        rejected(CredentialErrorKind::UnknownIssuer)
    );
    assert_eq!(changed("exp", json!(SECOND - 100)), rejected(CredentialErrorKind::Expired));
    // An issuer without a client id signs nobody in.
    assert_eq!(
        verify(&issuer(), &id_claims()).map(drop),
        rejected(CredentialErrorKind::WrongAudience)
    );
}

#[test]
fn another_key_signs_nobody_in() {
    let (signer, other) = (Signer::new(), Signer::new());
    let text = other.token(&id_claims());
    let token = UnverifiedJwt::parse_token(&text).unwrap();
    let expected = SignInExpectation { nonce: "n1", now: NOW };
    assert!(console_issuer().verify_id_token(&token, &signer.keys(), expected).is_err());
    assert!(console_issuer().verify_id_token(&token, &other.keys(), expected).is_ok());
}

#[test]
fn groups_give_level_and_roles_and_a_person_is_no_agent() {
    let user = verify(&console_issuer(), &id_claims()).unwrap();
    let ann = console_issuer().resolve_user(&user, &Directory::default(), NOW).unwrap();
    assert_eq!(
        (ann.subject(), ann.level(), ann.is_agent()),
        ("corp:ann", PermissionLevel::Admin, false)
    );
    assert!(ann.is_from_token() && ann.key_id().starts_with("corp:"));
}

#[test]
fn a_sign_in_ends_with_its_time_its_grant_its_user_and_its_issuer() {
    let user = verify(&console_issuer(), &id_claims()).unwrap();
    let resolve = |issuer: &TrustedIssuer, now| {
        issuer.resolve_user(&user, &Directory::default(), now).map(|ann| ann.level())
    };
    let hour = console_issuer().max_lifetime_ms;
    assert_eq!(resolve(&console_issuer(), later(hour - 1)), Ok(PermissionLevel::Admin));
    let expired = TokenVerificationError::Rejected(CredentialErrorKind::Expired);
    assert_eq!(resolve(&console_issuer(), later(hour)), Err(expired));
    let shorter = TrustedIssuer { max_lifetime_ms: 1_000, ..console_issuer() };
    assert_eq!(resolve(&shorter, later(1_000)), Err(expired), "the setting of now counts");
    let mut changed = console_issuer();
    changed.grants[1].level = PermissionLevel::Guest;
    assert_eq!(resolve(&changed, NOW), Ok(PermissionLevel::Guest));
    changed.grants.pop();
    assert_eq!(resolve(&changed, NOW), Err(TokenVerificationError::NoGrant));
    let moved = TrustedIssuer { iss: "https://other.example".to_owned(), ..console_issuer() };
    assert!(resolve(&moved, NOW).is_err());
    assert!(resolve(&issuer(), NOW).is_err(), "it signs nobody in any more");
    let record = UserRecord {
        org: Org::default(),
        subject: "corp:ann".to_owned(),
        level: PermissionLevel::Admin,
        roles: Vec::new(),
        persona: None,
        disabled_at: Some(NOW),
    };
    let key = UserRecord::store_key(&Org::default(), "corp:ann");
    let row = serde_json::to_string(&record).unwrap();
    let rows = [(key.as_str(), row.as_bytes())];
    let (directory, problems) = Directory::from_rows(PersonaSet::default(), rows);
    assert!(problems.is_empty());
    assert!(console_issuer().resolve_user(&user, &directory, NOW).is_err());
}

#[test]
fn user_info_adds_claims_of_the_same_user_and_replaces_none() {
    let mut claims = id_claims();
    claims.as_object_mut().unwrap().remove("realm");
    let signed_in = verify(&console_issuer(), &claims).unwrap();
    let directory = Directory::default();
    assert!(console_issuer().resolve_user(&signed_in, &directory, NOW).is_err());
    let info = |value: Value| value.as_object().unwrap().clone();
    let mut user = signed_in;
    let groups = json!({"groups": ["ops"]});
    for other in [json!({"realm": groups}), json!({"sub": "bob", "realm": groups})] {
        assert!(user.add_user_info(info(other)).is_err());
    }
    user.add_user_info(info(json!({"sub": "ann", "realm": groups, "nonce": "x"}))).unwrap();
    assert!(console_issuer().resolve_user(&user, &directory, NOW).is_ok());
    let mut user = verify(&console_issuer(), &id_claims()).unwrap();
    user.add_user_info(info(json!({"sub": "ann", "realm": {"groups": []}}))).unwrap();
    assert!(console_issuer().resolve_user(&user, &directory, NOW).is_ok(), "the token's counts");
}

#[test]
fn an_unverified_address_is_no_user() {
    let by_email = TrustedIssuer { subject_claim: "email".to_owned(), ..console_issuer() };
    let resolve = |verified: Value| {
        let mut claims = id_claims();
        claims["email"] = json!("ann@corp.example");
        if !verified.is_null() {
            claims["email_verified"] = verified;
        }
        let user = verify(&by_email, &claims).unwrap();
        by_email.resolve_user(&user, &Directory::default(), NOW).map(|ann| ann.subject().to_owned())
    };
    for verified in [json!(true), json!("true"), json!(null)] {
        assert_eq!(resolve(verified).unwrap(), "corp:ann@corp.example");
    }
    for unverified in [json!(false), json!("false"), json!(1)] {
        assert!(resolve(unverified).is_err());
    }
}
