//! Writes of directory records: personas, roles, users, organizations and their tools.

use bytes::Bytes;
use identity::{OrgRecord, Persona, PersonaSet, RoleRecord, UserRecord};
use serde::Serialize;
use tool::store::WritePrecondition;
use tool::{ErrorCode, Json, Org};

use super::{KeyStore, MAX_DIRECTORY_RECORDS, MAX_PERSONAS};
use crate::error::ApiError;

impl KeyStore {
    /// Stores a persona. With `is_new` it must not exist yet, otherwise it must exist.
    ///
    /// # Errors
    /// Returns an error if that does not hold, there are too many, or the store is unavailable.
    pub async fn put_persona(&self, persona: &Persona, is_new: bool) -> Result<(), ApiError> {
        let key = PersonaSet::store_key(&persona.name);
        let name = persona.name.escape_debug();
        let there = self.store.get_value(&key).await?;
        let expect = match there {
            Some(_) if is_new => {
                let message = format!("the persona `{name}` already exists");
                let fix =
                    format!("change it with `toolkeep persona set {name}`, or choose another name");
                return Err(ApiError::new(ErrorCode::Conflict, message).with_help(fix));
            }
            None if !is_new => {
                return Err(ApiError::new(ErrorCode::NotFound, format!("no persona `{name}`")));
            }
            Some(there) => WritePrecondition::Version(there.version),
            None if self.key_ring().personas().iter_with_default().count() >= MAX_PERSONAS => {
                let told = format!("there are already {MAX_PERSONAS} personas, the maximum");
                return Err(ApiError::new(ErrorCode::TooLarge, told));
            }
            None => WritePrecondition::Absent,
        };
        self.put_directory_row(&key, expect, Json::encode(persona).bytes().clone()).await
    }

    /// Sets the default persona for users without one.
    ///
    /// # Errors
    /// Returns an error if the store is unavailable.
    pub async fn set_default_persona(&self, name: &str) -> Result<(), ApiError> {
        let there = self.store.get_value(PersonaSet::STORE_DEFAULT_KEY).await?;
        let expect = there
            .map_or(WritePrecondition::Absent, |there| WritePrecondition::Version(there.version));
        let name = Bytes::copy_from_slice(name.as_bytes());
        self.put_directory_row(PersonaSet::STORE_DEFAULT_KEY, expect, name).await
    }

    /// Creates or replaces a role.
    ///
    /// # Errors
    /// Returns an error if there are too many, on a concurrent write, or if the store is
    /// unavailable.
    pub async fn upsert_role(&self, role: &RoleRecord) -> Result<(), ApiError> {
        let many = self.key_ring().directory().list_roles().count();
        self.upsert_record(&RoleRecord::store_key(&role.name), role, (many, "roles")).await
    }

    /// Creates or replaces a user.
    ///
    /// # Errors
    /// As [`KeyStore::upsert_role`].
    pub async fn upsert_user(&self, user: &UserRecord) -> Result<(), ApiError> {
        let many = self.key_ring().directory().list_users().count();
        self.upsert_record(&UserRecord::store_key(&user.org, &user.subject), user, (many, "users"))
            .await
    }

    /// Creates or replaces an organization.
    ///
    /// # Errors
    /// As [`KeyStore::upsert_role`].
    pub async fn upsert_org(&self, org: &OrgRecord) -> Result<(), ApiError> {
        let many = self.key_ring().directory().list_orgs().count();
        self.upsert_record(&OrgRecord::store_key(&org.name), org, (many, "organisations")).await
    }

    /// Stores the patterns of the tools that an organization may use.
    ///
    /// # Errors
    /// As [`KeyStore::upsert_role`].
    pub async fn set_org_tools(&self, org: &Org, tools: &[String]) -> Result<(), ApiError> {
        self.upsert_record(&OrgRecord::tool_patterns_key(org), tools, (0, "lists")).await
    }

    async fn upsert_record<T: Serialize + ?Sized>(
        &self,
        key: &str,
        one: &T,
        (many, what): (usize, &str),
    ) -> Result<(), ApiError> {
        let there = self.store.get_value(key).await?;
        if there.is_none() && many >= MAX_DIRECTORY_RECORDS {
            return Err(ApiError::new(
                ErrorCode::TooLarge,
                format!("there are already too many {what}"),
            ));
        }
        let expect = there
            .map_or(WritePrecondition::Absent, |there| WritePrecondition::Version(there.version));
        self.put_directory_row(key, expect, Json::encode(one).bytes().clone()).await
    }

    /// Writes one directory row and rebuilds the principals of all keys.
    async fn put_directory_row(
        &self,
        key: &str,
        expect: WritePrecondition,
        bytes: Bytes,
    ) -> Result<(), ApiError> {
        let version = self.store.put_value(key, expect, Some(bytes)).await?;
        self.record_own_write(version);
        self.reload_directory().await?;
        Ok(())
    }
}
