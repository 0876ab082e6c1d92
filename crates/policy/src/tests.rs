use std::collections::BTreeSet;

use identity::{KeyId, KeyRing, NewKey, Persona, Principal};
use proptest::prelude::*;
use tool::{CallerType, Level, Org, Safety, Traits, Wall};

use super::{Admission, Decision, Facts, Pattern, Policy, Reason, Rules, decide};

fn principal(level: Level, modules: Option<&[&str]>) -> Principal {
    let persona = modules.map(|modules| Persona {
        name: "p".to_owned(),
        allowed_modules: Some(modules.iter().map(|m| (*m).to_owned()).collect::<BTreeSet<_>>()),
    });
    let mut key = NewKey::user(KeyId::random([1; 6]), "ann");
    key.level = level;
    key.persona = persona;
    let (secret, record) = key.issue([7; 32], Wall(0)).unwrap();
    KeyRing::new([record]).verify(Some(secret.open()), Wall(1)).unwrap()
}

fn traits(level: Level) -> Traits {
    Traits { level, ..Traits::default() }
}

fn admit(policy: &Policy, who: &Principal, source: &str, name: &str, traits: &Traits) -> Admission {
    let org = Org::default();
    policy.admit(who.rights(), CallerType::Direct, &Facts { org: &org, source, name, traits })
}

fn patterns(list: &[&str]) -> Vec<Pattern> {
    list.iter().map(|text| Pattern::new(*text).unwrap()).collect()
}

#[test]
fn levels_and_modules_hide() {
    let policy = Policy::default();
    let user = principal(Level::User, Some(&["research"]));
    let seen = |source, level| admit(&policy, &user, source, "t", &traits(level));
    assert!(matches!(seen("research", Level::Guest), Admission::Visible(_)));
    assert!(matches!(seen("research", Level::User), Admission::Visible(_)));
    assert_eq!(seen("research", Level::Admin), Admission::Hidden(Reason::Level));
    assert_eq!(seen("scheduler", Level::Guest), Admission::Hidden(Reason::PersonaModules));
    let none = principal(Level::Owner, Some(&[]));
    let empty = admit(&policy, &none, "research", "t", &traits(Level::Guest));
    assert_eq!(empty, Admission::Hidden(Reason::PersonaModules));
}

#[test]
fn deny_wins_and_an_empty_allow_list_means_none() {
    let owner = principal(Level::Owner, None);
    let with = |allow: Option<&[&str]>, deny: &[&str]| {
        let rules = Rules { allow: allow.map(patterns), deny: patterns(deny), ..Rules::default() };
        admit(&Policy::new(rules), &owner, "s", "a.b", &traits(Level::Guest))
    };
    assert!(matches!(with(None, &[]), Admission::Visible(_)));
    assert!(matches!(with(Some(&["a.*"]), &[]), Admission::Visible(_)));
    assert_eq!(with(Some(&["a.*"]), &["source:s"]), Admission::Hidden(Reason::DenyRule));
    assert_eq!(with(Some(&[]), &[]), Admission::Hidden(Reason::NotAllowed));
}

#[test]
fn other_organisations_do_not_exist() {
    let owner = principal(Level::Owner, None);
    let org = Org::new("other").unwrap();
    let traits = traits(Level::Guest);
    let facts = Facts { org: &org, source: "s", name: "n", traits: &traits };
    let seen = Policy::default().admit(owner.rights(), CallerType::Direct, &facts);
    assert_eq!(seen, Admission::Hidden(Reason::OtherOrg));
}

#[test]
fn dangerous_and_destructive_are_held_and_cautious_is_noted() {
    let owner = principal(Level::Owner, None);
    let decided = |safety, destructive| {
        let traits = Traits { safety, destructive, ..Traits::default() };
        match admit(&Policy::default(), &owner, "s", "n", &traits) {
            Admission::Visible(residual) => decide(residual),
            Admission::Hidden(reason) => panic!("hidden: {reason}"),
        }
    };
    assert_eq!(decided(Safety::Safe, false), Decision::Allow(Reason::Allowed));
    assert_eq!(decided(Safety::Cautious, false), Decision::Allow(Reason::Caution));
    assert_eq!(decided(Safety::Dangerous, false), Decision::Hold(Reason::Dangerous));
    assert_eq!(decided(Safety::Safe, true), Decision::Hold(Reason::Destructive));
}

#[test]
fn a_typo_in_the_rules_is_an_error() {
    assert!(serde_json::from_str::<Rules>(r#"{"denny": []}"#).is_err());
    assert!(serde_json::from_str::<Rules>(r#"{"safety_limit": "moderate"}"#).is_ok());
    let error = serde_json::from_str::<Rules>(r#"{"deny": ["a b"]}"#).unwrap_err().to_string();
    assert!(error.starts_with("`a b` is no pattern"), "{error}");
}

/// The same question put to thirty plain lines: a set of names that each rule cuts down.
fn naive(rules: &Rules, level: Level, modules: Option<&[&str]>, source: &str, t: &Traits) -> bool {
    let mut seen = true;
    if let Some(modules) = modules {
        seen &= modules.contains(&source);
    }
    let names = |patterns: &[Pattern]| {
        patterns.iter().any(|p| match p.to_string().as_str() {
            "*" | "n" => true,
            other => other.strip_prefix("source:").is_some_and(|s| s == source),
        })
    };
    if let Some(allow) = &rules.allow {
        seen &= names(allow);
    }
    if let Some(limit) = rules.safety_limit {
        seen &= t.safety <= limit;
    }
    if let Some(wanted) = &rules.categories {
        seen &= wanted.iter().any(|c| t.categories.contains(c));
    }
    seen &= level >= t.level;
    seen && !names(&rules.deny)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]
    #[test]
    fn agrees_with_the_naive_model_and_only_narrows(
        level in prop::sample::select(Level::ALL),
        needs in prop::sample::select(Level::ALL),
        safety in prop::sample::select(Safety::ALL),
        limit in prop::option::of(prop::sample::select(Safety::ALL)),
        has in prop::collection::vec(prop::sample::select(vec!["x", "y"]), 0..3),
        wanted in prop::option::of(prop::collection::vec(prop::sample::select(vec!["x", "y"]), 0..3)),
        modules in prop::option::of(prop::collection::vec(prop::sample::select(vec!["s", "r"]), 0..3)),
        allow in prop::option::of(prop::collection::vec(
            prop::sample::select(vec!["*", "n", "source:s", "source:r", "m"]), 0..3)),
        deny in prop::collection::vec(prop::sample::select(vec!["source:r", "m", "n"]), 0..2),
    ) {
        let own = |list: &[&str]| list.iter().map(|c| (*c).to_owned()).collect::<Vec<_>>();
        let rules = Rules {
            safety_limit: limit,
            categories: wanted.as_deref().map(own),
            allow: allow.as_deref().map(patterns),
            deny: patterns(&deny),
        };
        let traits = Traits { level: needs, safety, categories: own(&has), ..Traits::default() };
        let who = principal(level, modules.as_deref());
        let policy = Policy::new(rules.clone());
        let seen = matches!(admit(&policy, &who, "s", "n", &traits), Admission::Visible(_));
        prop_assert_eq!(seen, naive(&rules, level, modules.as_deref(), "s", &traits));
        let free = matches!(admit(&Policy::default(), &who, "s", "n", &traits), Admission::Visible(_));
        prop_assert!(!seen || free, "a rule gave what was not there without it");
    }
}
