//! The personas of an installation, and the persona of each key.

use std::collections::{BTreeMap, BTreeSet};

use tool::{PermissionLevel, Problem};

use crate::Persona;
use crate::api_key::KeyRecord;

/// All personas at one moment, with the defaults for keys without one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PersonaSet {
    by_name: BTreeMap<String, Persona>,
    default: Option<String>,
    guest_modules: Option<BTreeSet<String>>,
}

impl PersonaSet {
    /// Store prefix of all personas.
    pub const STORE_PREFIX: &str = "persona/";
    /// Store key of the default persona's name.
    pub const STORE_DEFAULT_KEY: &str = "default_persona";

    /// Returns the store key of a persona.
    pub fn store_key(name: &str) -> String {
        format!("{}{name}", Self::STORE_PREFIX)
    }

    /// Builds the set from the store, as pairs of key and JSON text. An unreadable persona becomes
    /// a problem; keys that name it can use nothing.
    pub fn from_rows<'a>(
        stored: impl IntoIterator<Item = (&'a str, &'a [u8])>,
    ) -> (Self, Vec<Problem>) {
        let (mut named, mut problems) = (BTreeMap::new(), Vec::new());
        for (key, text) in stored {
            match serde_json::from_slice::<Persona>(text) {
                Ok(persona) if Self::store_key(&persona.name) == key => {
                    named.insert(persona.name.clone(), persona);
                }
                Ok(_) => problems.push(Problem::new(key, "the persona has another name")),
                Err(error) => {
                    let message = format!("cannot parse the persona: {error}");
                    problems.push(Problem::new(key, message));
                }
            }
        }
        (Self { by_name: named, ..Self::default() }, problems)
    }

    /// Sets the default persona by name.
    #[must_use]
    pub fn with_default(mut self, name: Option<String>) -> Self {
        self.default = name;
        self
    }

    /// Sets the sources for keys without a persona (`default_guest_modules` of the module API).
    #[must_use]
    pub fn with_guest_modules(mut self, modules: Option<BTreeSet<String>>) -> Self {
        self.guest_modules = modules;
        self
    }

    /// Returns the sources for keys without a persona; `None` if they are not restricted.
    pub fn guest_modules(&self) -> Option<&BTreeSet<String>> {
        self.guest_modules.as_ref()
    }

    /// Returns a persona by name.
    pub fn find_persona(&self, name: &str) -> Option<&Persona> {
        self.by_name.get(name)
    }

    /// Iterates over all personas by name, each with whether it is the default.
    pub fn iter_with_default(&self) -> impl Iterator<Item = (&Persona, bool)> {
        self.by_name.values().map(|persona| (persona, self.default.as_ref() == Some(&persona.name)))
    }

    /// Returns the persona of a key: its own list, else the persona it names. An unknown persona
    /// allows nothing.
    pub(crate) fn for_key(&self, record: &KeyRecord) -> Option<Persona> {
        match &record.persona {
            Some(own) if own.allowed_modules.is_some() => Some(own.clone()),
            Some(named) => Some(self.get_or_deny_all(&named.name)),
            None => self.default_for_level(record.level),
        }
    }

    /// Returns the persona of keys without one: the default, else the guest modules. Owners are not
    /// limited.
    pub(crate) fn default_for_level(&self, level: PermissionLevel) -> Option<Persona> {
        if level == PermissionLevel::Owner {
            return None;
        }
        if let Some(default) = &self.default {
            return Some(self.get_or_deny_all(default));
        }
        let guests = self.guest_modules.clone()?;
        Some(Persona { name: "default_guest_modules".to_owned(), allowed_modules: Some(guests) })
    }

    /// Returns a persona by name; an unknown one allows nothing.
    pub(crate) fn get_or_deny_all(&self, name: &str) -> Persona {
        let none = || Persona { name: name.to_owned(), allowed_modules: Some(BTreeSet::new()) };
        self.by_name.get(name).cloned().unwrap_or_else(none)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use tool::{PermissionLevel, WallTime};

    use super::PersonaSet;
    use crate::{KeyId, KeyRing, NewKey, Persona, Principal};

    fn modules(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|&name| name.to_owned()).collect()
    }

    fn persona(name: &str, allowed_modules: Option<BTreeSet<String>>) -> Persona {
        Persona { name: name.to_owned(), allowed_modules }
    }

    fn personas() -> PersonaSet {
        let text = |name: &str, list: &str| {
            (format!("persona/{name}"), format!(r#"{{"name":"{name}","allowed_modules":{list}}}"#))
        };
        let stored = [text("coder", r#"["code_executor"]"#), text("free", "null")];
        let pairs = stored.iter().map(|(key, text)| (key.as_str(), text.as_bytes()));
        let (personas, problems) = PersonaSet::from_rows(pairs);
        assert_eq!(problems, []);
        personas
    }

    fn principal(personas: &PersonaSet, level: PermissionLevel, own: Option<Persona>) -> Principal {
        let new =
            NewKey { level, persona: own, ..NewKey::for_user(KeyId::new("k").unwrap(), "ann") };
        let (secret, record) = new.issue_key([1; 32], WallTime(1)).unwrap();
        let ring = KeyRing::with_directory([record], personas.clone());
        ring.verify_key(Some(secret.expose()), WallTime(2)).unwrap()
    }

    fn allows(principal: &Principal, source: &str) -> bool {
        principal.rights_class().allows_source(source)
    }

    #[test]
    fn a_key_has_the_modules_of_the_persona_it_names() {
        let ann = principal(&personas(), PermissionLevel::User, Some(persona("coder", None)));
        assert!(allows(&ann, "code_executor") && !allows(&ann, "research"));
        let free = principal(&personas(), PermissionLevel::User, Some(persona("free", None)));
        assert!(allows(&free, "research"));
        // A list of its own counts before the name.
        let own = principal(
            &personas(),
            PermissionLevel::User,
            Some(persona("coder", Some(modules(&["a"])))),
        );
        assert!(allows(&own, "a") && !allows(&own, "code_executor"));
    }

    #[test]
    fn a_persona_that_is_gone_or_cannot_be_read_allows_nothing() {
        let ann = principal(&personas(), PermissionLevel::Owner, Some(persona("gone", None)));
        assert!(!allows(&ann, "research") && !allows(&ann, "code_executor"));
        let stored = [("persona/a", "garbage".as_bytes()), ("persona/b", br#"{"name":"c"}"#)];
        let (read, problems) = PersonaSet::from_rows(stored);
        assert_eq!((read.iter_with_default().count(), problems.len()), (0, 2));
    }

    #[test]
    fn without_a_persona_the_guests_modules_count_except_for_the_owner() {
        let limited = personas().with_guest_modules(Some(modules(&["research", "builtin"])));
        for level in [PermissionLevel::Guest, PermissionLevel::User, PermissionLevel::Admin] {
            let ann = principal(&limited, level, None);
            assert!(allows(&ann, "research") && allows(&ann, "builtin"), "{level}");
            assert!(!allows(&ann, "code_executor"), "{level}");
        }
        assert!(allows(&principal(&limited, PermissionLevel::Owner, None), "code_executor"));
        // Not configured, there is no limit.
        assert!(allows(&principal(&personas(), PermissionLevel::Guest, None), "code_executor"));
    }

    #[test]
    fn the_default_persona_counts_before_the_guests_modules() {
        let both = personas()
            .with_guest_modules(Some(modules(&["research"])))
            .with_default(Some("coder".to_owned()));
        let ann = principal(&both, PermissionLevel::User, None);
        assert!(allows(&ann, "code_executor") && !allows(&ann, "research"));
        assert!(allows(&principal(&both, PermissionLevel::Owner, None), "research"));
        let gone = personas().with_default(Some("gone".to_owned()));
        assert!(!allows(&principal(&gone, PermissionLevel::User, None), "research"));
    }

    #[test]
    fn who_comes_without_a_key_has_the_guests_modules_too() {
        let ring = KeyRing::with_directory(
            [],
            personas().with_guest_modules(Some(modules(&["research"]))),
        );
        let anyone = ring
            .with_anonymous_access(PermissionLevel::User)
            .verify_key(None, WallTime(1))
            .unwrap();
        assert!(allows(&anyone, "research") && !allows(&anyone, "code_executor"));
    }
}
