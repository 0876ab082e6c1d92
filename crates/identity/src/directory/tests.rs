use std::collections::BTreeSet;

use proptest::prelude::*;
use serde::Serialize;
use tool::{Actor, Level, Org, Secret, Wall};

use super::{Directory, OrgRecord, Role, User};
use crate::{
    Delegation, Hand, KeyFault, KeyId, KeyRecord, KeyRing, NewKey, Persona, Personas, Principal,
    Reason, Right,
};

const NOW: Wall = Wall(1_000);

fn id(text: &str) -> KeyId {
    KeyId::new(text).unwrap()
}

fn issue(new: NewKey) -> (Secret, KeyRecord) {
    new.issue([3; 32], NOW).unwrap()
}

fn directory(stored: &[(String, String)]) -> Directory {
    let pairs = stored.iter().map(|(key, text)| (key.as_str(), text.as_bytes()));
    Directory::read(Personas::default(), pairs).0
}

fn entry<T: Serialize>(key: String, one: &T) -> (String, String) {
    (key, serde_json::to_string(one).unwrap())
}

fn role(name: &str, level: Option<Level>, rights: &[Right]) -> Role {
    let rights = rights.iter().copied().collect();
    Role { name: name.to_owned(), description: String::new(), level, rights, revoked: None }
}

fn user(subject: &str, level: Level) -> User {
    let subject = subject.to_owned();
    User { org: Org::default(), subject, level, roles: vec![], persona: None, disabled: None }
}

fn stored_user(user: &User) -> (String, String) {
    entry(User::store_key(&user.org, &user.subject), user)
}

fn verify(ring: &KeyRing, secret: &Secret) -> Result<Principal, Reason> {
    ring.verify(Some(secret.open()), NOW).map_err(|error| error.reason())
}

/// A key handed on by the one of `maker`.
fn handed(
    ring: &KeyRing,
    maker: &str,
    name: &str,
    hand: Hand,
) -> Result<(Secret, KeyRecord), KeyFault> {
    let (own, principal) = (ring.get(maker).unwrap(), ring.principal(maker).unwrap());
    NewKey::delegated(id(name), (own, principal), hand, NOW)?.issue([3; 32], NOW)
}

/// A key created by the one of `maker`.
fn created(
    ring: &KeyRing,
    maker: &str,
    name: &str,
    new: NewKey,
) -> Result<(Secret, KeyRecord), KeyFault> {
    let new = NewKey { id: id(name), ..new };
    new.created_by(ring.principal(maker).unwrap(), ring)?.issue([3; 32], NOW)
}

fn modules(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|&name| name.to_owned()).collect()
}

#[test]
fn a_role_gives_its_rights_and_takes_its_levels() {
    let ops = role("ops", Some(Level::User), &[Right::RecordsRead, Right::KeysWrite]);
    let stored = directory(&[entry(Role::store_key("ops"), &ops)]);
    let new = NewKey {
        level: Level::Admin,
        roles: vec!["ops".to_owned()],
        ..NewKey::user(id("k"), "ann")
    };
    let (secret, record) = issue(new);
    let ann = verify(&KeyRing::with([record.clone()], stored), &secret).unwrap();
    assert_eq!((ann.level(), ann.roles()), (Level::User, ["ops".to_owned()].as_slice()));
    // What no agent has does not come by a role either.
    assert!(ann.may(Right::RecordsRead) && !ann.may(Right::KeysWrite));
    // A name that only the policy knows gives nothing here.
    let ann = verify(&KeyRing::new([record]), &secret).unwrap();
    assert!(ann.level() == Level::Admin && !ann.may(Right::RecordsRead));
}

#[test]
fn a_key_of_a_role_that_was_revoked_or_cannot_be_read_may_use_nothing() {
    let (roles, rights) = (vec!["ops".to_owned()], [Right::ActAs].into());
    let (secret, record) = issue(NewKey { roles, rights, ..NewKey::user(id("k"), "ann") });
    let with = |text: String| {
        let stored = directory(&[(Role::store_key("ops"), text)]);
        verify(&KeyRing::with([record.clone()], stored), &secret).unwrap()
    };
    let good = role("ops", None, &[]);
    let revoked = Role { revoked: Some(NOW), ..good.clone() };
    let text = |role: &Role| serde_json::to_string(role).unwrap();
    assert!(with(text(&good)).rights().allows_source("web"));
    assert!(with(text(&good)).may(Right::ActAs) && with(text(&good)).level() == Level::User);
    for gone in [text(&revoked), "{".to_owned()] {
        let ann = with(gone);
        assert!(!ann.rights().allows_source("web"));
        assert_eq!((ann.rights().rights().count(), ann.level()), (0, Level::Guest));
    }
}

#[test]
fn keys_of_a_disabled_user_or_organisation_do_not_hold() {
    let (secret, record) = issue(NewKey::user(id("k"), "ann"));
    let verdict = |stored: (String, String)| {
        verify(&KeyRing::with([record.clone()], directory(&[stored])), &secret)
    };
    let ann = user("ann", Level::User);
    assert!(verdict(stored_user(&ann)).is_ok());
    assert!(
        verdict(stored_user(&User { disabled: Some(NOW), ..user("bob", Level::User) })).is_ok()
    );
    let gone = stored_user(&User { disabled: Some(NOW), ..ann });
    assert_eq!(verdict(gone), Err(Reason::Disabled));
    assert_eq!(verdict(("user/default/ann".to_owned(), "[]".to_owned())), Err(Reason::Disabled));
    let org = |disabled| OrgRecord { name: Org::default(), description: String::new(), disabled };
    let key = || OrgRecord::store_key(&Org::default());
    assert!(verdict(entry(key(), &org(None))).is_ok());
    assert_eq!(verdict(entry(key(), &org(Some(NOW)))), Err(Reason::Disabled));
    assert_eq!(verdict((key(), "x".to_owned())), Err(Reason::Disabled));
}

/// Its credential is not kept here, but who it stands for is known.
#[test]
fn what_a_token_began_ends_where_its_user_is_disabled() {
    let of = |key: &str| tool::Caller {
        org: Org::default(),
        subject: "ann".to_owned(),
        key: key.to_owned(),
        level: Level::User,
        agent: true,
        actors: Vec::new(),
        root: None,
    };
    let holds = |user: &User, key: &str| {
        let ring = KeyRing::with([], directory(&[stored_user(user)]));
        ring.standing(&of(key), NOW).map(|standing| standing.is_some())
    };
    let ann = user("ann", Level::User);
    let gone = User { disabled: Some(NOW), ..ann.clone() };
    assert_eq!(holds(&gone, "issuer:ann"), Some(false));
    // The controls: one that is not disabled, another user, and what is no token.
    assert_eq!(holds(&ann, "issuer:ann"), None);
    assert_eq!(
        holds(&User { disabled: Some(NOW), ..user("bob", Level::User) }, "issuer:ann"),
        None
    );
    assert_eq!(holds(&gone, "k"), None);
}

#[test]
fn the_tools_of_an_organisation_are_its_list_and_a_broken_list_is_empty() {
    let acme: Org = "acme".parse().unwrap();
    let (secret, record) = issue(NewKey { org: acme.clone(), ..NewKey::user(id("k"), "ann") });
    let class = |text: Option<&str>| {
        let stored: Vec<_> =
            text.into_iter().map(|text| (OrgRecord::tools_key(&acme), text.to_owned())).collect();
        let ring = KeyRing::with([record.clone()], directory(&stored));
        verify(&ring, &secret).unwrap().rights().clone()
    };
    assert_eq!(class(None).org_tools(), None);
    let list = class(Some(r#"["web.*"]"#));
    assert_eq!(list.org_tools(), Some(["web.*".to_owned()].as_slice()));
    assert_eq!(class(Some("{}")).org_tools(), Some([].as_slice()));
    // Another list is another class: no cache outlives a change.
    assert_eq!(list, class(Some(r#"["web.*"]"#)));
    assert_ne!(list, class(Some(r#"["web.", "*"]"#)));
    assert_eq!(OrgRecord::tools_key(&acme), "org/acme/tools");
}

#[test]
fn a_delegated_key_ends_with_each_key_before_it() {
    let (_, root) = issue(NewKey { expires: Some(Wall(9_000)), ..NewKey::user(id("root"), "ann") });
    let ring = KeyRing::new([root.clone()]);
    let (_, mid) = handed(&ring, "root", "mid", Hand::default()).unwrap();
    assert_eq!(mid.expires, Some(Wall(9_000)));
    let ring = KeyRing::new([root.clone(), mid.clone()]);
    let hand = Hand { allow: Some(vec!["web.*".to_owned()]), no_web: true, ..Hand::default() };
    let (secret, leaf) = handed(&ring, "mid", "leaf", hand).unwrap();
    let holds = |records: Vec<KeyRecord>| verify(&KeyRing::new(records), &secret);
    let ann = holds(vec![root.clone(), mid.clone(), leaf.clone()]).unwrap();
    let by: Vec<_> = ann.rights().delegations().iter().map(|one| one.by.as_str()).collect();
    assert_eq!(by, ["root", "mid"]);
    let revoked = |record: &KeyRecord| KeyRecord { revoked: Some(NOW), ..record.clone() };
    let expired = |record: &KeyRecord| KeyRecord { expires: Some(NOW), ..record.clone() };
    for (records, reason) in [
        (vec![revoked(&root), mid.clone(), leaf.clone()], Reason::Revoked),
        (vec![root.clone(), revoked(&mid), leaf.clone()], Reason::Revoked),
        (vec![expired(&root), mid.clone(), leaf.clone()], Reason::Expired),
        (vec![root.clone(), leaf.clone()], Reason::Orphaned),
        (vec![mid.clone(), leaf.clone()], Reason::Orphaned),
    ] {
        assert_eq!(holds(records), Err(reason));
    }
    // A record that leaves out what a hand before it took is no key.
    let delegations = vec![Delegation { by: "mid".to_owned(), ..Delegation::default() }];
    let forged = KeyRecord { delegations, ..leaf };
    assert_eq!(holds(vec![root, mid, forged]), Err(Reason::Orphaned));
}

#[test]
fn a_chain_of_hands_is_bounded() {
    let mut records = vec![issue(NewKey::user(id("k0"), "ann")).1];
    for number in 0..8 {
        let ring = KeyRing::new(records.clone());
        let (from, to) = (format!("k{number}"), format!("k{}", number + 1));
        let (secret, record) = handed(&ring, &from, &to, Hand::default()).unwrap();
        records.push(record);
        assert!(verify(&KeyRing::new(records.clone()), &secret).is_ok());
    }
    let ring = KeyRing::new(records);
    assert_eq!(handed(&ring, "k8", "k9", Hand::default()).unwrap_err(), KeyFault::Hands(8));
}

#[test]
fn nobody_hands_on_what_he_has_not() {
    let persona = Some(Persona { name: "p".to_owned(), allowed_modules: Some(modules(&["web"])) });
    let rights = [Right::RecordsRead].into();
    let new =
        NewKey { persona, rights, expires: Some(Wall(5_000)), ..NewKey::user(id("k"), "ann") };
    let ring = KeyRing::new([issue(new).1]);
    let wrong = [
        (
            Hand { level: Some(Level::Admin), ..Hand::default() },
            "your own level is `user`, so the key's cannot be `admin`",
        ),
        (
            Hand { rights: [Right::SourcesRefresh].into(), ..Hand::default() },
            "your own key lacks the right `sources:refresh`, so it cannot give it",
        ),
        (
            Hand { modules: Some(modules(&["shell"])), ..Hand::default() },
            "your persona does not allow the module `shell`, so your key cannot give it",
        ),
        (
            Hand { person: true, ..Hand::default() },
            "an agent cannot make a key for a person; mark the key as `agent`",
        ),
        (
            Hand { expires: Some(Wall(5_001)), ..Hand::default() },
            "your own key ends before the one it would make; ask for less time",
        ),
        (
            Hand { subject: Some("bob".to_owned()), ..Hand::default() },
            "your key lacks the right `act_as`, so it cannot act on behalf of `bob`",
        ),
        (
            Hand { deny: vec!["a\nb".to_owned()], ..Hand::default() },
            "`a\\nb` cannot be a pattern of tools; use 1 to 256 printable characters",
        ),
    ];
    for (hand, told) in wrong {
        assert_eq!(handed(&ring, "k", "n", hand).unwrap_err().to_string(), told);
    }
    let right = Hand {
        rights: [Right::RecordsRead].into(),
        modules: Some(modules(&["web"])),
        ..Hand::default()
    };
    assert!(handed(&ring, "k", "n", right).is_ok());
}

/// Who acts for ann, with the right or without, and what of ann the directory says.
fn acting(may: bool, ann: Option<&User>) -> Result<Principal, Reason> {
    let rights = if may { [Right::ActAs, Right::RecordsRead].into() } else { BTreeSet::new() };
    let roles = vec!["bot".to_owned()];
    let actor = NewKey { level: Level::Admin, rights, roles, ..NewKey::user(id("bot"), "core") };
    let with_right = NewKey { rights: [Right::ActAs].into(), ..actor.clone() };
    let ring = KeyRing::new([issue(with_right).1]);
    let hand = Hand { subject: Some("ann".to_owned()), ..Hand::default() };
    let (secret, record) = handed(&ring, "bot", "forann", hand).unwrap();
    let stored: Vec<_> = ann.into_iter().map(stored_user).collect();
    verify(&KeyRing::with([issue(actor).1, record], directory(&stored)), &secret)
}

#[test]
fn on_behalf_of_another_counts_the_lesser_of_both() {
    let ann = User { roles: vec!["staff".to_owned()], ..user("ann", Level::User) };
    let acting_for = acting(true, Some(&ann)).unwrap();
    assert_eq!((acting_for.subject(), acting_for.level()), ("ann", Level::User));
    assert_eq!(acting_for.roles(), ["bot", "staff"]);
    assert_eq!(acting_for.rights().rights().count(), 0);
    let actor = Actor { subject: "core".to_owned(), key: "bot".to_owned() };
    assert_eq!(acting_for.caller().actors, [actor]);
    assert_eq!(acting_for.rights().actor().unwrap().level(), Level::Admin);
    // A user above the actor lends it nothing.
    assert_eq!(acting(true, Some(&user("ann", Level::Owner))).unwrap().level(), Level::Admin);
}

/// The sources of a class that acts for a user are met with those of who acts when the class is made, so that
/// whoever asks the class alone, and not its actor, gets no more.
#[test]
fn who_acts_for_another_has_the_sources_of_both_alone() {
    let persona = |names: &[&str]| {
        Some(Persona { name: "own".to_owned(), allowed_modules: Some(modules(names)) })
    };
    let named = |name: &str| format!(r#"{{"name":"{name}","allowed_modules":["web","shell"]}}"#);
    let personas = Personas::read([("persona/coder", named("coder").as_bytes())]).0;
    let ann = User { persona: Some("coder".to_owned()), ..user("ann", Level::User) };
    let (key, text) = stored_user(&ann);
    let acting_with = |modules: Option<&[&str]>| {
        let actor = NewKey {
            rights: [Right::ActAs].into(),
            persona: modules.and_then(persona),
            ..NewKey::user(id("bot"), "core")
        };
        let actor = issue(actor).1;
        let hand = Hand { subject: Some("ann".to_owned()), ..Hand::default() };
        let ring = KeyRing::new([actor.clone()]);
        let (secret, record) = handed(&ring, "bot", "forann", hand).unwrap();
        let stored = [(key.as_str(), text.as_bytes())];
        let directory = Directory::read(personas.clone(), stored).0;
        verify(&KeyRing::with([actor, record], directory), &secret).unwrap()
    };
    let allowed = |principal: &Principal| {
        ["web", "shell", "git"].map(|source| principal.rights().allows_source(source))
    };
    assert_eq!(allowed(&acting_with(Some(&["web", "git"]))), [true, false, false]);
    assert_eq!(allowed(&acting_with(Some(&[]))), [false; 3]);
    // The control: an actor without a limit leaves what the user has.
    assert_eq!(allowed(&acting_with(None)), [true, true, false]);
}

#[test]
fn without_the_right_or_the_user_nobody_acts_for_another() {
    assert_eq!(acting(true, None), Err(Reason::Orphaned));
    assert_eq!(acting(false, Some(&user("ann", Level::User))), Err(Reason::Orphaned));
    let gone = User { disabled: Some(NOW), ..user("ann", Level::User) };
    assert_eq!(acting(true, Some(&gone)), Err(Reason::Disabled));
}

fn level() -> impl Strategy<Value = Level> {
    prop::sample::select(vec![Level::Guest, Level::User, Level::Admin, Level::Owner])
}

fn list() -> impl Strategy<Value = Option<BTreeSet<String>>> {
    prop::option::of(prop::collection::btree_set("[abc]", 0..3))
}

fn rights() -> impl Strategy<Value = BTreeSet<Right>> {
    prop::collection::btree_set(prop::sample::select(Right::ALL.to_vec()), 0..4)
}

#[test]
fn what_a_delegated_key_creates_is_bound_to_it_whatever_subject_it_names() {
    let rights = [Right::KeysWrite].into();
    let root = issue(NewKey { agent: false, rights, ..NewKey::user(id("root"), "ann") }).1;
    let ring = KeyRing::new([root.clone()]);
    let hand = Hand {
        rights: [Right::KeysWrite].into(),
        person: true,
        allow: Some(vec!["web.*".to_owned()]),
        ..Hand::default()
    };
    let mid = handed(&ring, "root", "mid", hand).unwrap().1;
    let coder = r#"{"name":"coder","allowed_modules":["web"]}"#;
    let personas = Personas::read([("persona/coder", coder.as_bytes())]).0;
    let ops = role("ops", Some(Level::Guest), &[]);
    let (key, text) = entry(Role::store_key("ops"), &ops);
    let stored = Directory::read(personas, [(key.as_str(), text.as_bytes())]).0;
    let ring = KeyRing::with([root.clone(), mid.clone()], stored.clone());
    let new = NewKey {
        roles: vec!["ops".to_owned()],
        persona: Some(Persona { name: "coder".to_owned(), allowed_modules: None }),
        ..NewKey::user(id("x"), "mallory")
    };
    // The role is one that its maker has not.
    let lacks = created(&ring, "mid", "leaf", new.clone()).unwrap_err();
    assert_eq!(lacks, KeyFault::Role("ops".to_owned()));
    let new = NewKey { roles: Vec::new(), ..new };
    let (secret, leaf) = created(&ring, "mid", "leaf", new).unwrap();
    assert_eq!((leaf.expires, leaf.creator.as_deref()), (mid.expires, Some("ann")));
    let verdict =
        |records: Vec<KeyRecord>| verify(&KeyRing::with(records, stored.clone()), &secret);
    let mallory = verdict(vec![root.clone(), mid.clone(), leaf.clone()]).unwrap();
    assert_eq!((mallory.subject(), mallory.root_key()), ("mallory", "root"));
    // Its persona counts by its name, and what its maker lost is lost to it.
    assert!(mallory.rights().allows_source("web") && !mallory.rights().allows_source("shell"));
    assert_eq!(mallory.rights().delegations().len(), 2);
    assert_eq!(
        mallory.rights().delegations()[0].allow.as_deref(),
        Some(["web.*".to_owned()].as_slice())
    );
    let revoked = KeyRecord { revoked: Some(NOW), ..mid };
    assert_eq!(verdict(vec![root.clone(), revoked, leaf.clone()]), Err(Reason::Revoked));
    assert_eq!(verdict(vec![root, leaf]), Err(Reason::Orphaned));
}

#[test]
fn a_level_follows_the_users_unless_it_was_chosen_lower() {
    let key =
        |level, level_fixed| issue(NewKey { level, level_fixed, ..NewKey::user(id("k"), "ann") }).1;
    let (guest, user, admin) = (Level::Guest, Level::User, Level::Admin);
    for (record, former, new, after) in [
        (key(user, false), user, admin, (admin, false)),
        (key(user, false), user, guest, (guest, false)),
        (key(guest, false), user, admin, (guest, true)),
        (key(guest, true), guest, admin, (guest, true)),
        (key(user, true), admin, guest, (guest, true)),
        // Above its user: it comes down with it.
        (key(admin, false), guest, user, (user, false)),
    ] {
        assert_eq!(record.level_after(former, new), after, "{record:?}");
    }
}

#[test]
fn a_key_of_an_odd_name_holds_and_is_reported() {
    let (secret, mut record) = issue(NewKey::user(id("k"), "ann"));
    for (subject, problems) in [("ann", 0), ("ann\u{202e}", 1), ("\u{430}nn", 1), ("ann ", 1)] {
        subject.clone_into(&mut record.subject);
        let text = serde_json::to_string(&record).unwrap();
        let (ring, told) = KeyRing::read([("key/k", text.as_bytes())], Personas::default());
        assert_eq!(told.len(), problems, "{subject:?}");
        assert!(verify(&ring, &secret).is_ok());
    }
}

prop_compose! {
    fn new_key()(level in level(), rights in rights(), modules in list(), agent: bool, other: bool,
        expires in prop::option::of(1_001..9_000_u64)) -> NewKey {
        let persona = modules.map(|all| Persona { name: "p".to_owned(), allowed_modules: Some(all) });
        let (subject, expires) = (if other { "mallory" } else { "ann" }, expires.map(Wall));
        NewKey { level, persona, rights, agent, expires, ..NewKey::user(id("x"), subject) }
    }
}

prop_compose! {
    fn hand()(level in prop::option::of(level()), rights in rights(), modules in list(),
        (person, read_only, no_web) in any::<(bool, bool, bool)>(),
        expires in prop::option::of(1_001..9_000_u64)) -> Hand {
        let expires = expires.map(Wall);
        Hand { level, rights, modules, read_only, no_web, person, expires, ..Hand::default() }
    }
}

proptest! {
    /// Whatever is asked for: what comes of it is refused, or no wider than what it came from.
    #[test]
    fn no_key_is_wider_than_the_one_before_it(
        level in level(), own in rights(), list in list(), agent: bool, first in hand(),
        steps in prop::collection::vec(prop_oneof![hand().prop_map(Ok), new_key().prop_map(Err)], 0..5),
        later in level(),
    ) {
        let persona = list.map(|all| Persona { name: "p".to_owned(), allowed_modules: Some(all) });
        let own = own.into_iter().filter(|right| !agent || right.fits_agent()).collect();
        let new = NewKey { level, rights: own, persona, agent, expires: Some(Wall(8_000)), ..NewKey::user(id("k0"), "ann") };
        let mut records = vec![issue(new).1];
        for step in std::iter::once(Ok(first)).chain(steps) {
            let ring = KeyRing::new(records.clone());
            let (from, to) = (format!("k{}", records.len() - 1), format!("k{}", records.len()));
            let made = match step {
                Ok(hand) => handed(&ring, &from, &to, hand),
                // What a key of its own creates is free of it.
                Err(_) if records.len() == 1 => continue,
                Err(new) => created(&ring, &from, &to, new),
            };
            // Whether delegated or created, the next is made by the newest that there is.
            records.extend(made.into_iter().map(|(_, record)| record));
        }
        // The first is lowered after the fact: all that came of it are.
        records[0].level = records[0].level.min(later);
        let ring = KeyRing::new(records.clone());
        for pair in records.windows(2) {
            let (above, below) = (ring.principal(pair[0].id.as_str()).unwrap(), ring.principal(pair[1].id.as_str()).unwrap());
            prop_assert!(below.level() <= above.level());
            prop_assert!(below.rights().rights().all(|right| above.may(right)));
            prop_assert!(!above.agent() || below.agent());
            prop_assert!(below.until() <= above.until());
            prop_assert!(above.roles().iter().all(|role| below.roles().contains(role)));
            for source in ["a", "b", "c"] {
                prop_assert!(!below.rights().allows_source(source) || above.rights().allows_source(source));
            }
            prop_assert!(below.rights().delegations().starts_with(above.rights().delegations()));
        }
    }
}
