//! Who may change a role or a persona. Both narrow what keys may do, so who is narrowed by one does not lift it,
//! and nobody changes what keys above its own level have.

use tool::Level;

use crate::{KeyRecord, KeyRing, Principal, Right, Role};

/// Why a role or a persona may not be changed so.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ChangeFault {
    /// A right that who changes it does not have.
    #[error("your own key lacks the right `{0}`, so no role of yours can give it")]
    Right(Right),
    /// The role of who changes it.
    #[error("your own key has the role `{0}`, so that only an owner may change it")]
    Held(String),
    /// It was revoked.
    #[error("the role `{0}` was revoked, so that only an owner may set it again")]
    Revoked(String),
    /// A cap above the level of who lifts it.
    #[error("your own level is `{own}`, so you cannot lift the role's cap to `{asked}`")]
    Cap {
        /// The level of who asks.
        own: Level,
        /// The new cap; no cap is `owner`.
        asked: Level,
    },
    /// What a key of a higher level has.
    #[error("a key above your own level has the {what} `{name}`")]
    Above {
        /// Role or persona.
        what: &'static str,
        /// Its name.
        name: String,
    },
}

impl KeyRing {
    /// Whether `by` may put this role in the place of the one of its name.
    ///
    /// # Errors
    /// [`ChangeFault`].
    pub fn may_set_role(&self, role: &Role, by: &Principal) -> Result<(), ChangeFault> {
        self.may_touch_role(&role.name, by)?;
        let before = self.directory().role(&role.name);
        // Both what it gave and what it is to give: who takes a cap off gives as well.
        let rights = before.into_iter().flat_map(|role| &role.rights).chain(&role.rights);
        if let Some(right) = rights.into_iter().find(|right| !by.may(**right)) {
            return Err(ChangeFault::Right(*right));
        }
        if by.is_owner() {
            return Ok(());
        }
        if self.directory().bars(std::slice::from_ref(&role.name)) {
            return Err(ChangeFault::Revoked(role.name.clone()));
        }
        let cap = |role: &Role| role.level.unwrap_or(Level::Owner);
        let lifted = before.is_some_and(|before| cap(role) > cap(before));
        if lifted && cap(role) > by.level() {
            return Err(ChangeFault::Cap { own: by.level(), asked: cap(role) });
        }
        Ok(())
    }

    /// Whether `by` may revoke the role.
    ///
    /// # Errors
    /// [`ChangeFault`].
    pub fn may_revoke_role(&self, name: &str, by: &Principal) -> Result<(), ChangeFault> {
        self.may_touch_role(name, by)
    }

    /// Whether `by` may change the persona.
    ///
    /// # Errors
    /// [`ChangeFault::Above`].
    pub fn may_change_persona(&self, name: &str, by: &Principal) -> Result<(), ChangeFault> {
        let has = |key: &KeyRecord| {
            let own = key.persona.as_ref();
            own.is_some_and(|own| own.name == name && own.allowed_modules.is_none())
        };
        self.none_above(by, ("persona", name), has)
    }

    fn may_touch_role(&self, name: &str, by: &Principal) -> Result<(), ChangeFault> {
        // The roles of all keys that its own was delegated from are among them.
        if by.roles().iter().any(|role| role == name) && !by.is_owner() {
            return Err(ChangeFault::Held(name.to_owned()));
        }
        self.none_above(by, ("role", name), |key| key.roles.iter().any(|role| role == name))
    }

    fn none_above(
        &self,
        by: &Principal,
        (what, name): (&'static str, &str),
        has: impl Fn(&KeyRecord) -> bool,
    ) -> Result<(), ChangeFault> {
        // What a key comes to: one that the role itself holds down is not above.
        let level = |key: &KeyRecord| self.principal(key.id.as_str()).map(Principal::level);
        let above =
            |key: &&KeyRecord| key.revoked.is_none() && has(key) && level(key) > Some(by.level());
        if self.iter().any(|key| above(&key)) {
            return Err(ChangeFault::Above { what, name: name.to_owned() });
        }
        Ok(())
    }
}
