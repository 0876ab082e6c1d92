use proptest::prelude::*;
use tool::{PermissionLevel, WallTime};

use super::key_text::encode_base64url;
use super::{KeyId, KeyRecord, NewKey, key_digest, parse_key_id};
use crate::sharded_map::visits;
use crate::{Directory, KeyIssueError, KeyRing, Persona, Principal, Right};

const NOW: WallTime = WallTime(1_000);

fn id(text: &str) -> KeyId {
    KeyId::new(text).unwrap()
}

fn principal(new: NewKey) -> Principal {
    let (secret, record) = new.issue_key([1; 32], NOW).unwrap();
    KeyRing::new([record]).verify_key(Some(secret.expose()), NOW).unwrap()
}

#[test]
fn base64url_agrees_with_rfc_4648() {
    for (bytes, text) in [
        ("", ""),
        ("f", "Zg"),
        ("fo", "Zm8"),
        ("foo", "Zm9v"),
        ("foob", "Zm9vYg"),
        ("fooba", "Zm9vYmE"),
    ] {
        assert_eq!(encode_base64url(bytes.as_bytes()), text);
    }
    assert_eq!(encode_base64url(&[0xfb, 0xff]), "-_8");
}

#[test]
fn the_record_of_a_key_does_not_hold_the_key() {
    let (secret, record) = NewKey::for_owner(id("a1")).issue_key([7; 32], NOW).unwrap();
    assert_eq!(secret.expose(), format!("tk_a1_{}", encode_base64url(&[7; 32])));
    assert_eq!(record.key_digest, key_digest(secret.expose()));
    let stored = serde_json::to_string(&record).unwrap();
    assert!(
        !stored.contains(&encode_base64url(&[7; 32])) && !format!("{record:?}").contains("BwcH")
    );
    assert_eq!(serde_json::from_str::<KeyRecord>(&stored).unwrap(), record);
}

#[test]
fn a_record_that_does_not_say_is_an_agents() {
    let text = serde_json::json!({ "id": "a", "hash": key_digest("x"), "org": "default", "subject": "s",
        "level": "user", "created": 1 });
    let record: KeyRecord = serde_json::from_value(text).unwrap();
    assert!(record.is_agent && record.rights.is_empty());
}

#[test]
fn ids_and_texts_are_bounded() {
    for bad in ["", "A", "a_b", "a b", "é", &"a".repeat(33)] {
        assert!(matches!(KeyId::new(bad), Err(KeyIssueError::InvalidId(_))), "{bad}");
    }
    assert_eq!(KeyId::random([0, 1, 2, 253, 254, 255]).as_str(), "000102fdfeff");
    for bad in [String::new(), "a\nb".to_owned(), "a\u{200b}b".to_owned(), "x".repeat(257)] {
        let new = NewKey { subject: bad.clone(), ..NewKey::for_user(id("a"), "s") };
        assert!(
            matches!(new.issue_key([0; 32], NOW), Err(KeyIssueError::InvalidText { .. })),
            "{bad:?}"
        );
    }
    let many = NewKey { roles: vec!["r".to_owned(); 65], ..NewKey::for_user(id("a"), "s") };
    assert!(matches!(many.issue_key([0; 32], NOW), Err(KeyIssueError::TooMany { .. })));
    let past = NewKey { expires_at: Some(NOW), ..NewKey::for_user(id("a"), "s") };
    assert_eq!(past.issue_key([0; 32], NOW).unwrap_err(), KeyIssueError::AlreadyExpired);
}

#[test]
fn an_agent_never_approves_nor_makes_keys_for_people() {
    for right in [Right::Approve, Right::KeysWrite] {
        let new = NewKey { rights: [right].into(), ..NewKey::for_agent(id("a")) };
        assert_eq!(new.issue_key([0; 32], NOW).unwrap_err(), KeyIssueError::AgentRight(right));
    }
    // Even where its record was written by another hand.
    let (secret, mut record) = NewKey::for_agent(id("a")).issue_key([0; 32], NOW).unwrap();
    record.rights = Right::ALL.iter().copied().collect();
    let agent = KeyRing::new([record]).verify_key(Some(secret.expose()), NOW).unwrap();
    assert!(!agent.has_right(Right::Approve) && !agent.has_right(Right::KeysWrite));
    assert!(agent.has_right(Right::RecordsRead));
    let owner = principal(NewKey::for_owner(id("o")));
    assert!(Right::ALL.iter().all(|right| owner.has_right(*right)));
}

#[test]
fn nobody_gives_more_than_he_has() {
    let persona = |modules: &[&str]| {
        let allowed = modules.iter().map(|&module| module.to_owned()).collect();
        Some(Persona { name: "p".to_owned(), allowed_modules: Some(allowed) })
    };
    let limited =
        NewKey { persona: persona(&["web", "notes"]), ..NewKey::for_user(id("m"), "mia") };
    let rights = [Right::KeysWrite, Right::RecordsRead].into();
    let maker = principal(NewKey { is_agent: false, rights, ..limited });
    let base = NewKey { persona: persona(&["web"]), ..NewKey::for_user(id("n"), "new") };
    assert_eq!(base.check_grantable_by(&maker, &Directory::default()), Ok(()));
    let faults = [
        NewKey { level: PermissionLevel::Admin, ..base.clone() },
        NewKey { org: "other".parse().unwrap(), ..base.clone() },
        NewKey { rights: [Right::SourcesRefresh].into(), ..base.clone() },
        NewKey { roles: vec!["ops".to_owned()], ..base.clone() },
        NewKey { persona: None, ..base.clone() },
        NewKey { persona: persona(&["web", "shell"]), ..base },
    ]
    .map(|new| new.check_grantable_by(&maker, &Directory::default()).unwrap_err().to_string());
    assert_eq!(
        faults,
        [
            "your own level is `user`, so the key cannot have the level `admin`",
            "your key belongs to the organisation `default`, not to `other`",
            "your own key lacks the right `sources:refresh`, so it cannot grant it",
            "your own key lacks the role `ops`, so it cannot grant it",
            "your own persona is limited to some modules; list those that the key may use",
            "your persona does not allow the module `shell`, so your key cannot grant it",
        ]
    );
    let agent = principal(NewKey::for_agent(id("g")));
    let person = NewKey { is_agent: false, ..NewKey::for_user(id("n"), "new") };
    assert_eq!(
        person.check_grantable_by(&agent, &Directory::default()),
        Err(KeyIssueError::PersonKeyByAgent)
    );
}

#[test]
fn creating_a_key_reads_as_much_beside_5000_subjects_as_beside_ten() {
    let record = |new: NewKey| new.issue_key([2; 32], NOW).unwrap().1;
    let ring = |subjects: usize| {
        let owner = record(NewKey::for_owner(id("first")));
        let users = (0..subjects)
            .map(|n| record(NewKey::for_user(id(&format!("k{n}")), format!("subject{n}"))));
        KeyRing::new(users.chain([owner]))
    };
    let (few, many) = (ring(10), ring(5_000));
    for (subject, created) in [
        ("new", true),
        ("subject7", true),
        ("Анна", true),
        // It looks like `subject7`.
        ("sübject7", false),
    ] {
        let create = |ring: &KeyRing| {
            let maker = ring.principal_of_key("first").unwrap();
            visits::count(|| NewKey::for_user(id("new"), subject).created_by(maker, ring).is_ok())
        };
        let (beside_few, beside_many) = (create(&few), create(&many));
        assert_eq!((beside_few.1, beside_many.1), (created, created), "{subject}");
        assert_eq!(beside_few.0, beside_many.0, "{subject}");
    }
    // The control: what reads all keys is seen to do so.
    assert!(visits::count(|| many.count_valid(NOW)).0 > 5_000);
}

proptest! {
    #[test]
    fn every_issued_key_names_its_id(random: [u8; 32], bytes: [u8; 6]) {
        let new = NewKey::for_user(KeyId::random(bytes), "s");
        let (secret, record) = new.issue_key(random, NOW).unwrap();
        prop_assert_eq!(parse_key_id(secret.expose()), Some(record.id.as_str()));
    }

    #[test]
    fn no_text_breaks_the_reader(text in ".{0,80}") {
        if let Some(id) = parse_key_id(&text) {
            prop_assert!(KeyId::new(id).is_ok());
        }
    }
}
