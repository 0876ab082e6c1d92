//! Rules for changing roles and personas. Both restrict keys: a key cannot lift a restriction of
//! its own, and cannot change keys above its own level.

use tool::PermissionLevel;

use crate::{KeyRecord, KeyRing, Principal, Right, RoleRecord};

/// Errors of a change to a role or a persona.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ChangeError {
    /// The caller lacks a right that the role grants.
    #[error("your own key lacks the right `{0}`, so it cannot grant it to a role")]
    MissingRight(Right),
    /// The caller's own key has the role.
    #[error("your own key has the role `{0}`, so only an owner can change it")]
    OwnRole(String),
    /// The role was revoked.
    #[error("the role `{0}` was revoked, so only an owner can set it again")]
    RoleRevoked(String),
    /// The new cap exceeds the caller's level.
    #[error(
        "your own level is `{own_level}`, so you cannot raise the role's maximum level to \
         `{requested_cap}`"
    )]
    CapAboveLevel {
        /// Level of the caller.
        own_level: PermissionLevel,
        /// The new cap; no cap counts as `owner`.
        requested_cap: PermissionLevel,
    },
    /// A key above the caller's level is affected.
    #[error("a key above your own level has the {what} `{name}`")]
    HigherKeyAffected {
        /// Kind of item: role or persona.
        what: &'static str,
        /// Name of the role or persona.
        name: String,
    },
}

impl KeyRing {
    /// Checks that `principal` may replace the role of this name.
    ///
    /// # Errors
    /// [`ChangeError`].
    pub fn check_role_update(
        &self,
        role: &RoleRecord,
        principal: &Principal,
    ) -> Result<(), ChangeError> {
        self.check_role_change(&role.name, principal)?;
        let before = self.directory().find_role(&role.name);
        // Checks the rights before and after: removing a cap grants rights too.
        let rights = before.into_iter().flat_map(|role| &role.rights).chain(&role.rights);
        if let Some(right) = rights.into_iter().find(|right| !principal.has_right(**right)) {
            return Err(ChangeError::MissingRight(*right));
        }
        if principal.is_owner() {
            return Ok(());
        }
        if self.directory().has_unusable_role(std::slice::from_ref(&role.name)) {
            return Err(ChangeError::RoleRevoked(role.name.clone()));
        }
        let cap = |role: &RoleRecord| role.max_level.unwrap_or(PermissionLevel::Owner);
        let lifted = before.is_some_and(|before| cap(role) > cap(before));
        if lifted && cap(role) > principal.level() {
            return Err(ChangeError::CapAboveLevel {
                own_level: principal.level(),
                requested_cap: cap(role),
            });
        }
        Ok(())
    }

    /// Checks that `principal` may revoke the role.
    ///
    /// # Errors
    /// [`ChangeError`].
    pub fn check_role_revocation(
        &self,
        name: &str,
        principal: &Principal,
    ) -> Result<(), ChangeError> {
        self.check_role_change(name, principal)
    }

    /// Checks that `principal` may change the persona.
    ///
    /// # Errors
    /// [`ChangeError::HigherKeyAffected`].
    pub fn check_persona_change(
        &self,
        name: &str,
        principal: &Principal,
    ) -> Result<(), ChangeError> {
        let has = |key: &KeyRecord| {
            let own = key.persona.as_ref();
            own.is_some_and(|own| own.name == name && own.allowed_modules.is_none())
        };
        self.check_no_higher_key(principal, ("persona", name), has)
    }

    fn check_role_change(&self, name: &str, by: &Principal) -> Result<(), ChangeError> {
        // These include the roles of all keys that its own was delegated from.
        if by.roles().iter().any(|role| role == name) && !by.is_owner() {
            return Err(ChangeError::OwnRole(name.to_owned()));
        }
        self.check_no_higher_key(by, ("role", name), |key| {
            key.roles.iter().any(|role| role == name)
        })
    }

    fn check_no_higher_key(
        &self,
        by: &Principal,
        (what, name): (&'static str, &str),
        has: impl Fn(&KeyRecord) -> bool,
    ) -> Result<(), ChangeError> {
        // Effective levels: a key that the role itself restricts is not above it.
        let level = |key: &KeyRecord| self.principal_of_key(key.id.as_str()).map(Principal::level);
        let above = |key: &&KeyRecord| {
            key.revoked_at.is_none() && has(key) && level(key) > Some(by.level())
        };
        if self.iter_records().any(|key| above(&key)) {
            return Err(ChangeError::HigherKeyAffected { what, name: name.to_owned() });
        }
        Ok(())
    }
}
