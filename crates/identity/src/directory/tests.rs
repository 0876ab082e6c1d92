use std::collections::BTreeSet;

use proptest::prelude::*;
use serde::Serialize;
use tool::{Actor, Org, PermissionLevel, Secret, WallTime};

use super::{Directory, OrgRecord, RoleRecord, UserRecord};
use crate::{
    CallerCredential, CredentialErrorKind, DelegationRequest, KeyDelegation, KeyId, KeyIssueError,
    KeyRecord, KeyRing, NewKey, Persona, PersonaSet, Principal, Right,
};

const NOW: WallTime = WallTime(1_000);

fn id(text: &str) -> KeyId {
    KeyId::new(text).unwrap()
}

fn issue(new: NewKey) -> (Secret, KeyRecord) {
    new.issue_key([3; 32], NOW).unwrap()
}

fn directory(stored: &[(String, String)]) -> Directory {
    let pairs = stored.iter().map(|(key, text)| (key.as_str(), text.as_bytes()));
    Directory::from_rows(PersonaSet::default(), pairs).0
}

fn entry<T: Serialize>(key: String, one: &T) -> (String, String) {
    (key, serde_json::to_string(one).unwrap())
}

fn role(name: &str, level: Option<PermissionLevel>, rights: &[Right]) -> RoleRecord {
    let rights = rights.iter().copied().collect();
    RoleRecord {
        name: name.to_owned(),
        description: String::new(),
        max_level: level,
        rights,
        revoked_at: None,
    }
}

fn user(subject: &str, level: PermissionLevel) -> UserRecord {
    let subject = subject.to_owned();
    UserRecord {
        org: Org::default(),
        subject,
        level,
        roles: vec![],
        persona: None,
        disabled_at: None,
    }
}

fn stored_user(user: &UserRecord) -> (String, String) {
    entry(UserRecord::store_key(&user.org, &user.subject), user)
}

fn verify(ring: &KeyRing, secret: &Secret) -> Result<Principal, CredentialErrorKind> {
    ring.verify_key(Some(secret.expose()), NOW).map_err(|error| error.reason())
}

/// A key handed on by the one of `maker`.
fn handed(
    ring: &KeyRing,
    maker: &str,
    name: &str,
    hand: DelegationRequest,
) -> Result<(Secret, KeyRecord), KeyIssueError> {
    let (own, principal) =
        (ring.find_record(maker).unwrap(), ring.principal_of_key(maker).unwrap());
    NewKey::delegate_key(id(name), (own, principal), hand, NOW)?.issue_key([3; 32], NOW)
}

/// A key created by the one of `maker`.
fn created(
    ring: &KeyRing,
    maker: &str,
    name: &str,
    new: NewKey,
) -> Result<(Secret, KeyRecord), KeyIssueError> {
    let new = NewKey { id: id(name), ..new };
    new.created_by(ring.principal_of_key(maker).unwrap(), ring)?.issue_key([3; 32], NOW)
}

fn modules(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|&name| name.to_owned()).collect()
}

#[test]
fn a_role_gives_its_rights_and_takes_its_levels() {
    let ops = role("ops", Some(PermissionLevel::User), &[Right::RecordsRead, Right::KeysWrite]);
    let stored = directory(&[entry(RoleRecord::store_key("ops"), &ops)]);
    let new = NewKey {
        level: PermissionLevel::Admin,
        roles: vec!["ops".to_owned()],
        ..NewKey::for_user(id("k"), "ann")
    };
    let (secret, record) = issue(new);
    let ann = verify(&KeyRing::with_directory([record.clone()], stored), &secret).unwrap();
    assert_eq!((ann.level(), ann.roles()), (PermissionLevel::User, ["ops".to_owned()].as_slice()));
    // What no agent has does not come by a role either.
    assert!(ann.has_right(Right::RecordsRead) && !ann.has_right(Right::KeysWrite));
    // A name that only the policy knows gives nothing here.
    let ann = verify(&KeyRing::new([record]), &secret).unwrap();
    assert!(ann.level() == PermissionLevel::Admin && !ann.has_right(Right::RecordsRead));
}

#[test]
fn a_key_of_a_role_that_was_revoked_or_cannot_be_read_may_use_nothing() {
    let (roles, rights) = (vec!["ops".to_owned()], [Right::ActAs].into());
    let (secret, record) = issue(NewKey { roles, rights, ..NewKey::for_user(id("k"), "ann") });
    let with = |text: String| {
        let stored = directory(&[(RoleRecord::store_key("ops"), text)]);
        verify(&KeyRing::with_directory([record.clone()], stored), &secret).unwrap()
    };
    let good = role("ops", None, &[]);
    let revoked = RoleRecord { revoked_at: Some(NOW), ..good.clone() };
    let text = |role: &RoleRecord| serde_json::to_string(role).unwrap();
    assert!(with(text(&good)).rights_class().allows_source("web"));
    assert!(
        with(text(&good)).has_right(Right::ActAs)
            && with(text(&good)).level() == PermissionLevel::User
    );
    for gone in [text(&revoked), "{".to_owned()] {
        let ann = with(gone);
        assert!(!ann.rights_class().allows_source("web"));
        assert_eq!((ann.rights_class().rights().count(), ann.level()), (0, PermissionLevel::Guest));
    }
}

#[test]
fn keys_of_a_disabled_user_or_organisation_do_not_hold() {
    let (secret, record) = issue(NewKey::for_user(id("k"), "ann"));
    let verdict = |stored: (String, String)| {
        verify(&KeyRing::with_directory([record.clone()], directory(&[stored])), &secret)
    };
    let ann = user("ann", PermissionLevel::User);
    assert!(verdict(stored_user(&ann)).is_ok());
    assert!(
        verdict(stored_user(&UserRecord {
            disabled_at: Some(NOW),
            ..user("bob", PermissionLevel::User)
        }))
        .is_ok()
    );
    let gone = stored_user(&UserRecord { disabled_at: Some(NOW), ..ann });
    assert_eq!(verdict(gone), Err(CredentialErrorKind::Disabled));
    assert_eq!(
        verdict(("user/default/ann".to_owned(), "[]".to_owned())),
        Err(CredentialErrorKind::Disabled)
    );
    let org = |disabled| OrgRecord {
        name: Org::default(),
        description: String::new(),
        disabled_at: disabled,
    };
    let key = || OrgRecord::store_key(&Org::default());
    assert!(verdict(entry(key(), &org(None))).is_ok());
    assert_eq!(verdict(entry(key(), &org(Some(NOW)))), Err(CredentialErrorKind::Disabled));
    assert_eq!(verdict((key(), "x".to_owned())), Err(CredentialErrorKind::Disabled));
}

/// Its credential is not kept here, but who it stands for is known.
#[test]
fn what_a_token_began_ends_where_its_user_is_disabled() {
    let of = |key: &str| tool::Caller {
        org: Org::default(),
        subject: "ann".to_owned(),
        key_id: key.to_owned(),
        level: PermissionLevel::User,
        is_agent: true,
        actors: Vec::new(),
        root_key_id: None,
    };
    let is_ended = |user: &UserRecord, key: &str| {
        let ring = KeyRing::with_directory([], directory(&[stored_user(user)]));
        match ring.principal_of_caller(&of(key), NOW) {
            CallerCredential::Valid(principal) => panic!("{principal:?}"),
            CallerCredential::Invalid => true,
            CallerCredential::NotStoredHere => false,
        }
    };
    let ann = user("ann", PermissionLevel::User);
    let gone = UserRecord { disabled_at: Some(NOW), ..ann.clone() };
    assert!(is_ended(&gone, "issuer:ann"));
    // The controls: one that is not disabled, another user, and what is no token.
    assert!(!is_ended(&ann, "issuer:ann"));
    let bob = UserRecord { disabled_at: Some(NOW), ..user("bob", PermissionLevel::User) };
    assert!(!is_ended(&bob, "issuer:ann"));
    assert!(!is_ended(&gone, "k"));
}

#[test]
fn the_tools_of_an_organisation_are_its_list_and_a_broken_list_is_empty() {
    let acme: Org = "acme".parse().unwrap();
    let (secret, record) = issue(NewKey { org: acme.clone(), ..NewKey::for_user(id("k"), "ann") });
    let class = |text: Option<&str>| {
        let stored: Vec<_> = text
            .into_iter()
            .map(|text| (OrgRecord::tool_patterns_key(&acme), text.to_owned()))
            .collect();
        let ring = KeyRing::with_directory([record.clone()], directory(&stored));
        verify(&ring, &secret).unwrap().rights_class().clone()
    };
    assert_eq!(class(None).org_tools(), None);
    let list = class(Some(r#"["web.*"]"#));
    assert_eq!(list.org_tools(), Some(["web.*".to_owned()].as_slice()));
    assert_eq!(class(Some("{}")).org_tools(), Some([].as_slice()));
    // Another list is another class: no cache outlives a change.
    assert_eq!(list, class(Some(r#"["web.*"]"#)));
    assert_ne!(list, class(Some(r#"["web.", "*"]"#)));
    assert_eq!(OrgRecord::tool_patterns_key(&acme), "org/acme/tools");
}

#[test]
fn a_delegated_key_ends_with_each_key_before_it() {
    let (_, root) =
        issue(NewKey { expires_at: Some(WallTime(9_000)), ..NewKey::for_user(id("root"), "ann") });
    let ring = KeyRing::new([root.clone()]);
    let (_, mid) = handed(&ring, "root", "mid", DelegationRequest::default()).unwrap();
    assert_eq!(mid.expires_at, Some(WallTime(9_000)));
    let ring = KeyRing::new([root.clone(), mid.clone()]);
    let hand = DelegationRequest {
        allowed_tools: Some(vec!["web.*".to_owned()]),
        denies_network: true,
        ..DelegationRequest::default()
    };
    let (secret, leaf) = handed(&ring, "mid", "leaf", hand).unwrap();
    let holds = |records: Vec<KeyRecord>| verify(&KeyRing::new(records), &secret);
    let ann = holds(vec![root.clone(), mid.clone(), leaf.clone()]).unwrap();
    let by: Vec<_> =
        ann.rights_class().delegations().iter().map(|one| one.delegated_by.as_str()).collect();
    assert_eq!(by, ["root", "mid"]);
    let revoked = |record: &KeyRecord| KeyRecord { revoked_at: Some(NOW), ..record.clone() };
    let expired = |record: &KeyRecord| KeyRecord { expires_at: Some(NOW), ..record.clone() };
    for (records, reason) in [
        (vec![revoked(&root), mid.clone(), leaf.clone()], CredentialErrorKind::Revoked),
        (vec![root.clone(), revoked(&mid), leaf.clone()], CredentialErrorKind::Revoked),
        (vec![expired(&root), mid.clone(), leaf.clone()], CredentialErrorKind::Expired),
        (vec![root.clone(), leaf.clone()], CredentialErrorKind::InvalidDelegation),
        (vec![mid.clone(), leaf.clone()], CredentialErrorKind::InvalidDelegation),
    ] {
        assert_eq!(holds(records), Err(reason));
    }
    // A record that leaves out what a hand before it took is no key.
    let delegations =
        vec![KeyDelegation { delegated_by: "mid".to_owned(), ..KeyDelegation::default() }];
    let forged = KeyRecord { delegations, ..leaf };
    assert_eq!(holds(vec![root, mid, forged]), Err(CredentialErrorKind::InvalidDelegation));
}

#[test]
fn a_chain_of_hands_is_bounded() {
    let mut records = vec![issue(NewKey::for_user(id("k0"), "ann")).1];
    for number in 0..8 {
        let ring = KeyRing::new(records.clone());
        let (from, to) = (format!("k{number}"), format!("k{}", number + 1));
        let (secret, record) = handed(&ring, &from, &to, DelegationRequest::default()).unwrap();
        records.push(record);
        assert!(verify(&KeyRing::new(records.clone()), &secret).is_ok());
    }
    let ring = KeyRing::new(records);
    assert_eq!(
        handed(&ring, "k8", "k9", DelegationRequest::default()).unwrap_err(),
        KeyIssueError::DelegationTooDeep(8)
    );
}

#[test]
fn nobody_hands_on_what_he_has_not() {
    let persona = Some(Persona { name: "p".to_owned(), allowed_modules: Some(modules(&["web"])) });
    let rights = [Right::RecordsRead].into();
    let new = NewKey {
        persona,
        rights,
        expires_at: Some(WallTime(5_000)),
        ..NewKey::for_user(id("k"), "ann")
    };
    let ring = KeyRing::new([issue(new).1]);
    let wrong = [
        (
            DelegationRequest {
                level: Some(PermissionLevel::Admin),
                ..DelegationRequest::default()
            },
            "your own level is `user`, so the key cannot have the level `admin`",
        ),
        (
            DelegationRequest {
                rights: [Right::SourcesRefresh].into(),
                ..DelegationRequest::default()
            },
            "your own key lacks the right `sources:refresh`, so it cannot grant it",
        ),
        (
            DelegationRequest {
                allowed_modules: Some(modules(&["shell"])),
                ..DelegationRequest::default()
            },
            "your persona does not allow the module `shell`, so your key cannot grant it",
        ),
        (
            DelegationRequest { is_person: true, ..DelegationRequest::default() },
            "an agent cannot create a key for a person; mark the key as `agent`",
        ),
        (
            DelegationRequest { expires_at: Some(WallTime(5_001)), ..DelegationRequest::default() },
            "your own key expires before the new one would; use a shorter lifetime",
        ),
        (
            DelegationRequest { subject: Some("bob".to_owned()), ..DelegationRequest::default() },
            "your key lacks the right `act_as`, so it cannot act on behalf of `bob`",
        ),
        (
            DelegationRequest {
                denied_tools: vec!["a\nb".to_owned()],
                ..DelegationRequest::default()
            },
            "invalid tool pattern `a\\nb`; use 1 to 256 printable characters",
        ),
    ];
    for (hand, told) in wrong {
        assert_eq!(handed(&ring, "k", "n", hand).unwrap_err().to_string(), told);
    }
    let right = DelegationRequest {
        rights: [Right::RecordsRead].into(),
        allowed_modules: Some(modules(&["web"])),
        ..DelegationRequest::default()
    };
    assert!(handed(&ring, "k", "n", right).is_ok());
}

/// Who acts for ann, with the right or without, and what of ann the directory says.
fn acting(may: bool, ann: Option<&UserRecord>) -> Result<Principal, CredentialErrorKind> {
    let rights = if may { [Right::ActAs, Right::RecordsRead].into() } else { BTreeSet::new() };
    let roles = vec!["bot".to_owned()];
    let actor = NewKey {
        level: PermissionLevel::Admin,
        rights,
        roles,
        ..NewKey::for_user(id("bot"), "core")
    };
    let with_right = NewKey { rights: [Right::ActAs].into(), ..actor.clone() };
    let ring = KeyRing::new([issue(with_right).1]);
    let hand =
        DelegationRequest { subject: Some("ann".to_owned()), ..DelegationRequest::default() };
    let (secret, record) = handed(&ring, "bot", "forann", hand).unwrap();
    let stored: Vec<_> = ann.into_iter().map(stored_user).collect();
    verify(&KeyRing::with_directory([issue(actor).1, record], directory(&stored)), &secret)
}

#[test]
fn on_behalf_of_another_counts_the_lesser_of_both() {
    let ann = UserRecord { roles: vec!["staff".to_owned()], ..user("ann", PermissionLevel::User) };
    let acting_for = acting(true, Some(&ann)).unwrap();
    assert_eq!((acting_for.subject(), acting_for.level()), ("ann", PermissionLevel::User));
    assert_eq!(acting_for.roles(), ["bot", "staff"]);
    assert_eq!(acting_for.rights_class().rights().count(), 0);
    let actor = Actor { subject: "core".to_owned(), key_id: "bot".to_owned() };
    assert_eq!(acting_for.caller().actors, [actor]);
    assert_eq!(acting_for.rights_class().actor().unwrap().level(), PermissionLevel::Admin);
    // A user above the actor lends it nothing.
    assert_eq!(
        acting(true, Some(&user("ann", PermissionLevel::Owner))).unwrap().level(),
        PermissionLevel::Admin
    );
}

/// The sources of a class that acts for a user are met with those of who acts when the class is made, so that
/// whoever asks the class alone, and not its actor, gets no more.
#[test]
fn who_acts_for_another_has_the_sources_of_both_alone() {
    let persona = |names: &[&str]| {
        Some(Persona { name: "own".to_owned(), allowed_modules: Some(modules(names)) })
    };
    let named = |name: &str| format!(r#"{{"name":"{name}","allowed_modules":["web","shell"]}}"#);
    let personas = PersonaSet::from_rows([("persona/coder", named("coder").as_bytes())]).0;
    let ann =
        UserRecord { persona: Some("coder".to_owned()), ..user("ann", PermissionLevel::User) };
    let (key, text) = stored_user(&ann);
    let acting_with = |modules: Option<&[&str]>| {
        let actor = NewKey {
            rights: [Right::ActAs].into(),
            persona: modules.and_then(persona),
            ..NewKey::for_user(id("bot"), "core")
        };
        let actor = issue(actor).1;
        let hand =
            DelegationRequest { subject: Some("ann".to_owned()), ..DelegationRequest::default() };
        let ring = KeyRing::new([actor.clone()]);
        let (secret, record) = handed(&ring, "bot", "forann", hand).unwrap();
        let stored = [(key.as_str(), text.as_bytes())];
        let directory = Directory::from_rows(personas.clone(), stored).0;
        verify(&KeyRing::with_directory([actor, record], directory), &secret).unwrap()
    };
    let allowed = |principal: &Principal| {
        ["web", "shell", "git"].map(|source| principal.rights_class().allows_source(source))
    };
    assert_eq!(allowed(&acting_with(Some(&["web", "git"]))), [true, false, false]);
    assert_eq!(allowed(&acting_with(Some(&[]))), [false; 3]);
    // The control: an actor without a limit leaves what the user has.
    assert_eq!(allowed(&acting_with(None)), [true, true, false]);
}

#[test]
fn without_the_right_or_the_user_nobody_acts_for_another() {
    assert_eq!(acting(true, None), Err(CredentialErrorKind::InvalidDelegation));
    assert_eq!(
        acting(false, Some(&user("ann", PermissionLevel::User))),
        Err(CredentialErrorKind::InvalidDelegation)
    );
    let gone = UserRecord { disabled_at: Some(NOW), ..user("ann", PermissionLevel::User) };
    assert_eq!(acting(true, Some(&gone)), Err(CredentialErrorKind::Disabled));
}

fn level() -> impl Strategy<Value = PermissionLevel> {
    prop::sample::select(vec![
        PermissionLevel::Guest,
        PermissionLevel::User,
        PermissionLevel::Admin,
        PermissionLevel::Owner,
    ])
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
    let root = issue(NewKey { is_agent: false, rights, ..NewKey::for_user(id("root"), "ann") }).1;
    let ring = KeyRing::new([root.clone()]);
    let hand = DelegationRequest {
        rights: [Right::KeysWrite].into(),
        is_person: true,
        allowed_tools: Some(vec!["web.*".to_owned()]),
        ..DelegationRequest::default()
    };
    let mid = handed(&ring, "root", "mid", hand).unwrap().1;
    let coder = r#"{"name":"coder","allowed_modules":["web"]}"#;
    let personas = PersonaSet::from_rows([("persona/coder", coder.as_bytes())]).0;
    let ops = role("ops", Some(PermissionLevel::Guest), &[]);
    let (key, text) = entry(RoleRecord::store_key("ops"), &ops);
    let stored = Directory::from_rows(personas, [(key.as_str(), text.as_bytes())]).0;
    let ring = KeyRing::with_directory([root.clone(), mid.clone()], stored.clone());
    let new = NewKey {
        roles: vec!["ops".to_owned()],
        persona: Some(Persona { name: "coder".to_owned(), allowed_modules: None }),
        ..NewKey::for_user(id("x"), "mallory")
    };
    // The role is one that its maker has not.
    let lacks = created(&ring, "mid", "leaf", new.clone()).unwrap_err();
    assert_eq!(lacks, KeyIssueError::MissingRole("ops".to_owned()));
    let new = NewKey { roles: Vec::new(), ..new };
    let (secret, leaf) = created(&ring, "mid", "leaf", new).unwrap();
    assert_eq!((leaf.expires_at, leaf.creator.as_deref()), (mid.expires_at, Some("ann")));
    let verdict = |records: Vec<KeyRecord>| {
        verify(&KeyRing::with_directory(records, stored.clone()), &secret)
    };
    let mallory = verdict(vec![root.clone(), mid.clone(), leaf.clone()]).unwrap();
    assert_eq!((mallory.subject(), mallory.limit_key_id()), ("mallory", "root"));
    // Its persona counts by its name, and what its maker lost is lost to it.
    assert!(
        mallory.rights_class().allows_source("web")
            && !mallory.rights_class().allows_source("shell")
    );
    assert_eq!(mallory.rights_class().delegations().len(), 2);
    assert_eq!(
        mallory.rights_class().delegations()[0].allowed_tools.as_deref(),
        Some(["web.*".to_owned()].as_slice())
    );
    let revoked = KeyRecord { revoked_at: Some(NOW), ..mid };
    assert_eq!(
        verdict(vec![root.clone(), revoked, leaf.clone()]),
        Err(CredentialErrorKind::Revoked)
    );
    assert_eq!(verdict(vec![root, leaf]), Err(CredentialErrorKind::InvalidDelegation));
}

#[test]
fn a_level_follows_the_users_unless_it_was_chosen_lower() {
    let key = |level, level_fixed| {
        issue(NewKey { level, level_fixed, ..NewKey::for_user(id("k"), "ann") }).1
    };
    let (guest, user, admin) =
        (PermissionLevel::Guest, PermissionLevel::User, PermissionLevel::Admin);
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
    let (secret, mut record) = issue(NewKey::for_user(id("k"), "ann"));
    for (subject, problems) in [("ann", 0), ("ann\u{202e}", 1), ("\u{430}nn", 1), ("ann ", 1)] {
        subject.clone_into(&mut record.subject);
        let text = serde_json::to_string(&record).unwrap();
        let (ring, told) = KeyRing::parse_rows([("key/k", text.as_bytes())], PersonaSet::default());
        assert_eq!(told.len(), problems, "{subject:?}");
        assert!(verify(&ring, &secret).is_ok());
    }
}

prop_compose! {
    fn new_key()(level in level(), rights in rights(), modules in list(), agent: bool, other: bool,
        expires in prop::option::of(1_001..9_000_u64)) -> NewKey {
        let persona = modules.map(|all| Persona { name: "p".to_owned(), allowed_modules: Some(all) });
        let (subject, expires) = (if other { "mallory" } else { "ann" }, expires.map(WallTime));
        NewKey { level, persona, rights, is_agent: agent, expires_at: expires, ..NewKey::for_user(id("x"), subject) }
    }
}

prop_compose! {
    fn hand()(level in prop::option::of(level()), rights in rights(), modules in list(),
        (person, read_only, no_web) in any::<(bool, bool, bool)>(),
        expires in prop::option::of(1_001..9_000_u64)) -> DelegationRequest {
        let expires = expires.map(WallTime);
        DelegationRequest { level, rights, allowed_modules: modules, is_read_only: read_only, denies_network: no_web, is_person: person, expires_at: expires, ..DelegationRequest::default() }
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
        let own = own.into_iter().filter(|right| !agent || right.is_allowed_for_agents()).collect();
        let new = NewKey { level, rights: own, persona, is_agent: agent, expires_at: Some(WallTime(8_000)), ..NewKey::for_user(id("k0"), "ann") };
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
            let (above, below) = (ring.principal_of_key(pair[0].id.as_str()).unwrap(), ring.principal_of_key(pair[1].id.as_str()).unwrap());
            prop_assert!(below.level() <= above.level());
            prop_assert!(below.rights_class().rights().all(|right| above.has_right(right)));
            prop_assert!(!above.is_agent() || below.is_agent());
            prop_assert!(below.expires_at() <= above.expires_at());
            prop_assert!(above.roles().iter().all(|role| below.roles().contains(role)));
            for source in ["a", "b", "c"] {
                prop_assert!(!below.rights_class().allows_source(source) || above.rights_class().allows_source(source));
            }
            prop_assert!(below.rights_class().delegations().starts_with(above.rights_class().delegations()));
        }
    }
}
