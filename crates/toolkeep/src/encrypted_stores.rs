//! Views of the store whose rows are encrypted, and the secrets of the installation.

use std::sync::Arc;

use server_core::KeyStore;
use server_core::tool_search::SearchLearning;
use store::EncryptedStore;
use tool::{Secret, Store};

use super::startup_error;
use cli_core::command_error::CommandError;

/// Returns a secret of the installation; the first start creates it.
///
/// # Errors
/// [`CommandError`] if it cannot be read or written.
pub(crate) async fn get_or_create_secret(
    keys: &KeyStore,
    name: &str,
    part: &'static str,
) -> Result<Secret, CommandError> {
    keys.get_or_create_secret(name).await.map_err(|error| startup_error(part)(error.message()))
}

/// Views of the store whose rows are encrypted.
pub(crate) struct EncryptedStores {
    pub(crate) pending_calls: EncryptedStore,
    pub(crate) programs: EncryptedStore,
    pub(crate) tokens: Arc<EncryptedStore>,
    pub(crate) tasks: Arc<EncryptedStore>,
    pub(crate) search_learning: EncryptedStore,
}

impl EncryptedStores {
    /// Opens them with one key.
    ///
    /// # Errors
    /// [`CommandError`] if the key cannot be read or written.
    pub(crate) async fn open_stores(
        keys: &KeyStore,
        store: &Arc<dyn Store>,
    ) -> Result<Self, CommandError> {
        let secret = get_or_create_secret(keys, "secret/tokens", "the tokens' key").await?;
        let sealed = |what| EncryptedStore::new(Arc::clone(store), &secret, what);
        Ok(Self {
            pending_calls: sealed("held calls"),
            programs: sealed("programs"),
            tokens: Arc::new(sealed("upstream tokens")),
            tasks: Arc::new(sealed("mcp tasks")),
            search_learning: sealed("search learning").with_prefix(SearchLearning::STORE_PREFIX),
        })
    }
}
