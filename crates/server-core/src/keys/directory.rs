//! Writes of directory records: personas, roles, users, organizations and their tools.

use bytes::Bytes;
use identity::{OrgRecord, Persona, Personas, Role, User};
use serde::Serialize;
use tool::store::Expect;
use tool::{Code, Json, Org};

use super::{BESIDE, Keys, PERSONAS};
use crate::error::ApiError;

impl Keys {
    /// Stores a persona. With `new` it must not exist yet, otherwise it must exist.
    ///
    /// # Errors
    /// Returns an error if that does not hold, there are too many, or the store is unavailable.
    pub async fn keep_persona(&self, persona: &Persona, new: bool) -> Result<(), ApiError> {
        let key = Personas::store_key(&persona.name);
        let name = persona.name.escape_debug();
        let there = self.store.get(&key).await?;
        let expect = match there {
            Some(_) if new => {
                let told = format!("there is a persona `{name}` already");
                let fix =
                    format!("change it with `toolkeep persona set {name}`, or give another name");
                return Err(ApiError::new(Code::Conflict, told).fix(fix));
            }
            None if !new => {
                return Err(ApiError::new(Code::NotFound, format!("no persona `{name}`")));
            }
            Some(there) => Expect::Version(there.version),
            None if self.ring().personas().all().count() >= PERSONAS => {
                let told = format!("there are {PERSONAS} personas already");
                return Err(ApiError::new(Code::TooLarge, told));
            }
            None => Expect::Absent,
        };
        self.put_beside(&key, expect, Json::of(persona).bytes().clone()).await
    }

    /// Sets the default persona for users without one.
    ///
    /// # Errors
    /// Returns an error if the store is unavailable.
    pub async fn set_default_persona(&self, name: &str) -> Result<(), ApiError> {
        let there = self.store.get(Personas::STORE_DEFAULT).await?;
        let expect = there.map_or(Expect::Absent, |there| Expect::Version(there.version));
        let name = Bytes::copy_from_slice(name.as_bytes());
        self.put_beside(Personas::STORE_DEFAULT, expect, name).await
    }

    /// Creates or replaces a role.
    ///
    /// # Errors
    /// Returns an error if there are too many, on a concurrent write, or if the store is
    /// unavailable.
    pub async fn keep_role(&self, role: &Role) -> Result<(), ApiError> {
        let many = self.ring().directory().roles().count();
        self.keep(&Role::store_key(&role.name), role, (many, "roles")).await
    }

    /// Creates or replaces a user.
    ///
    /// # Errors
    /// As [`Keys::keep_role`].
    pub async fn keep_user(&self, user: &User) -> Result<(), ApiError> {
        let many = self.ring().directory().users().count();
        self.keep(&User::store_key(&user.org, &user.subject), user, (many, "users")).await
    }

    /// Creates or replaces an organization.
    ///
    /// # Errors
    /// As [`Keys::keep_role`].
    pub async fn keep_org(&self, org: &OrgRecord) -> Result<(), ApiError> {
        let many = self.ring().directory().orgs().count();
        self.keep(&OrgRecord::store_key(&org.name), org, (many, "organisations")).await
    }

    /// Stores the patterns of the tools that an organization may use.
    ///
    /// # Errors
    /// As [`Keys::keep_role`].
    pub async fn keep_org_tools(&self, org: &Org, tools: &[String]) -> Result<(), ApiError> {
        self.keep(&OrgRecord::tools_key(org), tools, (0, "lists")).await
    }

    async fn keep<T: Serialize + ?Sized>(
        &self,
        key: &str,
        one: &T,
        (many, what): (usize, &str),
    ) -> Result<(), ApiError> {
        let there = self.store.get(key).await?;
        if there.is_none() && many >= BESIDE {
            return Err(ApiError::new(
                Code::TooLarge,
                format!("there are too many {what} already"),
            ));
        }
        let expect = there.map_or(Expect::Absent, |there| Expect::Version(there.version));
        self.put_beside(key, expect, Json::of(one).bytes().clone()).await
    }

    /// Writes one directory row and rebuilds the principals of all keys.
    async fn put_beside(&self, key: &str, expect: Expect, bytes: Bytes) -> Result<(), ApiError> {
        let version = self.store.put(key, expect, Some(bytes)).await?;
        self.wrote_beside(version);
        self.reload_directory().await?;
        Ok(())
    }
}
