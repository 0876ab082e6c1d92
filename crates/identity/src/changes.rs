//! Rules for changing roles and personas. Both restrict keys: a key cannot lift a restriction of
//! its own, and cannot change keys above its own level.

use tool::Level;

use crate::{KeyRecord, KeyRing, Principal, Right, Role};

/// Errors of a change to a role or a persona.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ChangeFault {
    /// The caller lacks a right that the role grants.
    #[error("your own key lacks the right `{0}`, so no role of yours can give it")]
    Right(Right),
    /// The caller's own key has the role.
    #[error("your own key has the role `{0}`, so that only an owner may change it")]
    Held(String),
    /// The role was revoked.
    #[error("the role `{0}` was revoked, so that only an owner may set it again")]
    Revoked(String),
    /// The new cap exceeds the caller's level.
    #[error("your own level is `{own}`, so you cannot lift the role's cap to `{asked}`")]
    Cap {
        /// Level of the caller.
        own: Level,
        /// The new cap; no cap counts as `owner`.
        asked: Level,
    },
    /// A key above the caller's level is affected.
    #[error("a key above your own level has the {what} `{name}`")]
    Above {
        /// Kind of item: role or persona.
        what: &'static str,
        /// Name of the role or persona.
        name: String,
    },
}

impl KeyRing {
    /// Checks that `by` may replace the role of this name.
    ///
    /// # Errors
    /// [`ChangeFault`].
    pub fn may_set_role(&self, role: &Role, by: &Principal) -> Result<(), ChangeFault> {
        self.may_touch_role(&role.name, by)?;
        let before = self.directory().role(&role.name);
        // Checks the rights before and after: removing a cap grants rights too.
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

    /// Checks that `by` may revoke the role.
    ///
    /// # Errors
    /// [`ChangeFault`].
    pub fn may_revoke_role(&self, name: &str, by: &Principal) -> Result<(), ChangeFault> {
        self.may_touch_role(name, by)
    }

    /// Checks that `by` may change the persona.
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
        // These include the roles of all keys that its own was delegated from.
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
