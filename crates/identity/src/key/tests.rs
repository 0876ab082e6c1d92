use proptest::prelude::*;
use tool::{Level, Wall};

use super::{KeyId, KeyRecord, NewKey, base64url, digest, id_of};
use crate::shards::visits;
use crate::{Directory, KeyFault, KeyRing, Persona, Principal, Right};

const NOW: Wall = Wall(1_000);

fn id(text: &str) -> KeyId {
    KeyId::new(text).unwrap()
}

fn principal(new: NewKey) -> Principal {
    let (secret, record) = new.issue([1; 32], NOW).unwrap();
    KeyRing::new([record]).verify(Some(secret.open()), NOW).unwrap()
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
        assert_eq!(base64url(bytes.as_bytes()), text);
    }
    assert_eq!(base64url(&[0xfb, 0xff]), "-_8");
}

#[test]
fn the_record_of_a_key_does_not_hold_the_key() {
    let (secret, record) = NewKey::owner(id("a1")).issue([7; 32], NOW).unwrap();
    assert_eq!(secret.open(), format!("tk_a1_{}", base64url(&[7; 32])));
    assert_eq!(record.hash, digest(secret.open()));
    let stored = serde_json::to_string(&record).unwrap();
    assert!(!stored.contains(&base64url(&[7; 32])) && !format!("{record:?}").contains("BwcH"));
    assert_eq!(serde_json::from_str::<KeyRecord>(&stored).unwrap(), record);
}

#[test]
fn a_record_that_does_not_say_is_an_agents() {
    let text = serde_json::json!({ "id": "a", "hash": digest("x"), "org": "default", "subject": "s",
        "level": "user", "created": 1 });
    let record: KeyRecord = serde_json::from_value(text).unwrap();
    assert!(record.agent && record.rights.is_empty());
}

#[test]
fn ids_and_texts_are_bounded() {
    for bad in ["", "A", "a_b", "a b", "é", &"a".repeat(33)] {
        assert!(matches!(KeyId::new(bad), Err(KeyFault::Id(_))), "{bad}");
    }
    assert_eq!(KeyId::random([0, 1, 2, 253, 254, 255]).as_str(), "000102fdfeff");
    for bad in [String::new(), "a\nb".to_owned(), "a\u{200b}b".to_owned(), "x".repeat(257)] {
        let new = NewKey { subject: bad.clone(), ..NewKey::user(id("a"), "s") };
        assert!(matches!(new.issue([0; 32], NOW), Err(KeyFault::Text { .. })), "{bad:?}");
    }
    let many = NewKey { roles: vec!["r".to_owned(); 65], ..NewKey::user(id("a"), "s") };
    assert!(matches!(many.issue([0; 32], NOW), Err(KeyFault::TooMany { .. })));
    let past = NewKey { expires: Some(NOW), ..NewKey::user(id("a"), "s") };
    assert_eq!(past.issue([0; 32], NOW).unwrap_err(), KeyFault::Expired);
}

#[test]
fn an_agent_never_approves_nor_makes_keys_for_people() {
    for right in [Right::Approve, Right::KeysWrite] {
        let new = NewKey { rights: [right].into(), ..NewKey::agent(id("a")) };
        assert_eq!(new.issue([0; 32], NOW).unwrap_err(), KeyFault::AgentRight(right));
    }
    // Even where its record was written by another hand.
    let (secret, mut record) = NewKey::agent(id("a")).issue([0; 32], NOW).unwrap();
    record.rights = Right::ALL.iter().copied().collect();
    let agent = KeyRing::new([record]).verify(Some(secret.open()), NOW).unwrap();
    assert!(!agent.may(Right::Approve) && !agent.may(Right::KeysWrite));
    assert!(agent.may(Right::RecordsRead));
    let owner = principal(NewKey::owner(id("o")));
    assert!(Right::ALL.iter().all(|right| owner.may(*right)));
}

#[test]
fn nobody_gives_more_than_he_has() {
    let persona = |modules: &[&str]| {
        let allowed = modules.iter().map(|&module| module.to_owned()).collect();
        Some(Persona { name: "p".to_owned(), allowed_modules: Some(allowed) })
    };
    let limited = NewKey { persona: persona(&["web", "notes"]), ..NewKey::user(id("m"), "mia") };
    let rights = [Right::KeysWrite, Right::RecordsRead].into();
    let maker = principal(NewKey { agent: false, rights, ..limited });
    let base = NewKey { persona: persona(&["web"]), ..NewKey::user(id("n"), "new") };
    assert_eq!(base.within(&maker, &Directory::default()), Ok(()));
    let faults = [
        NewKey { level: Level::Admin, ..base.clone() },
        NewKey { org: "other".parse().unwrap(), ..base.clone() },
        NewKey { rights: [Right::SourcesRefresh].into(), ..base.clone() },
        NewKey { roles: vec!["ops".to_owned()], ..base.clone() },
        NewKey { persona: None, ..base.clone() },
        NewKey { persona: persona(&["web", "shell"]), ..base },
    ]
    .map(|new| new.within(&maker, &Directory::default()).unwrap_err().to_string());
    assert_eq!(
        faults,
        [
            "your own level is `user`, so the key's cannot be `admin`",
            "your key belongs to the organisation `default`, not to `other`",
            "your own key lacks the right `sources:refresh`, so it cannot give it",
            "your own key lacks the role `ops`, so it cannot give it",
            "your own persona is limited to some modules; name those that the key may use",
            "your persona does not allow the module `shell`, so your key cannot give it",
        ]
    );
    let agent = principal(NewKey::agent(id("g")));
    let person = NewKey { agent: false, ..NewKey::user(id("n"), "new") };
    assert_eq!(person.within(&agent, &Directory::default()), Err(KeyFault::Person));
}

#[test]
fn creating_a_key_reads_as_much_beside_5000_subjects_as_beside_ten() {
    let record = |new: NewKey| new.issue([2; 32], NOW).unwrap().1;
    let ring = |subjects: usize| {
        let owner = record(NewKey::owner(id("first")));
        let users = (0..subjects)
            .map(|n| record(NewKey::user(id(&format!("k{n}")), format!("subject{n}"))));
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
            let maker = ring.principal("first").unwrap();
            visits::count(|| NewKey::user(id("new"), subject).created_by(maker, ring).is_ok())
        };
        let (beside_few, beside_many) = (create(&few), create(&many));
        assert_eq!((beside_few.1, beside_many.1), (created, created), "{subject}");
        assert_eq!(beside_few.0, beside_many.0, "{subject}");
    }
    // The control: what reads all keys is seen to do so.
    assert!(visits::count(|| many.live(NOW)).0 > 5_000);
}

proptest! {
    #[test]
    fn every_issued_key_names_its_id(random: [u8; 32], bytes: [u8; 6]) {
        let new = NewKey::user(KeyId::random(bytes), "s");
        let (secret, record) = new.issue(random, NOW).unwrap();
        prop_assert_eq!(id_of(secret.open()), Some(record.id.as_str()));
    }

    #[test]
    fn no_text_breaks_the_reader(text in ".{0,80}") {
        if let Some(id) = id_of(&text) {
            prop_assert!(KeyId::new(id).is_ok());
        }
    }
}
