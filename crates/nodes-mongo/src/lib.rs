//! Registry store in a MongoDB database that several servers share. Tools are stored in
//! `cluster_local_tools` as the cluster tools have them; owners and nodes in a collection beside
//! it.
//!
//! The driver connects only to the servers in the operator's URL. Every operation has a short
//! timeout; if MongoDB is unavailable, the registry is served from memory.

mod bson_values;
mod change_stream;
mod documents;
mod driver_error;

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use mongodb::bson::oid::ObjectId;
use mongodb::bson::{Document, doc};
use mongodb::options::{
    ClientOptions, IndexOptions, ReadConcern, ReturnDocument, SelectionCriteria, WriteConcern,
};
use mongodb::{Client, Collection, IndexModel};
use tokio::sync::OnceCell;
use tool::node_registry::NodeTool;
use tool::store::WritePrecondition;
use tool::{BoxFuture, Secret, StoreError, Version, VersionedValue};

use documents::{decode_record, decode_tool, encode_tool};
use driver_error::{is_duplicate, run_with_timeout, to_store_error};
use nodes::{ChangeReceiver, MAX_NODES, MAX_TOOLS_PER_NODE, RegistryStore, parse_tool_key};

/// The collection of tools, as the cluster tools name it.
const TOOLS_COLLECTION: &str = "cluster_local_tools";
/// The collection of owners of names and of nodes.
const RECORDS_COLLECTION: &str = "toolkeep_nodes";
/// The default database, as in the cluster tools.
const DEFAULT_DATABASE: &str = "tools_db";
/// The id of the document that counts versions.
const COUNTER_ID: &str = "counter";
/// Timeout of server selection and of a connection.
const SERVER_SELECTION_TIMEOUT: Duration = Duration::from_secs(2);
/// Maximum number of connections; idle ones are closed.
const MAX_POOL_SIZE: u32 = 8;

/// Stores the registry in MongoDB.
pub struct MongoRegistryStore {
    tools: Collection<Document>,
    records: Collection<Document>,
    /// Set once the unique index was created, before the first write.
    index_created: OnceCell<()>,
    /// Registry keys by document id, because a removal event has only the id.
    keys_by_id: Arc<Mutex<HashMap<ObjectId, String>>>,
}

impl MongoRegistryStore {
    /// Creates a store from `mongodb://[USER[:PASSWORD]@]HOST[:PORT],…/[DATABASE][?…]`.
    /// Connections are opened on demand. Must be called on a runtime that outlives all calls.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] if the URL is invalid; the error does not repeat it.
    pub async fn from_url(url: &Secret) -> Result<Self, StoreError> {
        let invalid_url =
            |why: &str| StoreError::Unavailable(format!("invalid MongoDB URL: {why}"));
        if url.expose().starts_with("mongodb+srv:") {
            return Err(invalid_url(
                "DNS seed lists are not supported; list the servers, as `mongodb://HOST:PORT`",
            ));
        }
        let options = ClientOptions::parse(url.expose()).await;
        // The error of the driver may repeat the URL with its password.
        let mut options =
            options.map_err(|_| invalid_url("write it as `mongodb://HOST:PORT/DATABASE`"))?;
        options.server_selection_timeout = Some(SERVER_SELECTION_TIMEOUT);
        options.connect_timeout = Some(SERVER_SELECTION_TIMEOUT);
        options.max_pool_size = Some(MAX_POOL_SIZE);
        options.min_pool_size = Some(0);
        options.app_name.get_or_insert_with(|| "toolkeep".to_owned());
        // Majority concerns: no acknowledged write is lost, and no stale one is read.
        options.write_concern = Some(WriteConcern::majority());
        options.read_concern = Some(ReadConcern::majority());
        options.selection_criteria =
            Some(SelectionCriteria::ReadPreference(mongodb::options::ReadPreference::Primary));
        let database =
            options.default_database.clone().unwrap_or_else(|| DEFAULT_DATABASE.to_owned());
        let client = Client::with_options(options).map_err(|_| {
            invalid_url(
                "its options contradict each \
                other",
            )
        })?;
        let database = client.database(&database);
        Ok(Self {
            tools: database.collection(TOOLS_COLLECTION),
            records: database.collection(RECORDS_COLLECTION),
            index_created: OnceCell::new(),
            keys_by_id: Arc::default(),
        })
    }

    /// Creates the unique index on (name, node_id), if it was not yet.
    async fn ensure_index(&self) -> Result<(), StoreError> {
        let made = self.index_created.get_or_try_init(async || {
            let options = IndexOptions::builder().unique(true).build();
            let keys = doc! { "name": 1, "node_id": 1 };
            let model = IndexModel::builder().keys(keys).options(options).build();
            match run_with_timeout(self.tools.create_index(model)).await? {
                Ok(_) => Ok(()),
                Err(error) if is_duplicate(&error) => Err(StoreError::Unavailable(format!(
                    "`{TOOLS_COLLECTION}` has two tools with the same name and node, so the unique \
                     index cannot be created; remove one of them"
                ))),
                Err(error) => Err(to_store_error(&error)),
            }
        });
        made.await.copied()
    }

    /// Returns a version greater than all earlier ones of all servers.
    async fn next_version(&self) -> Result<Version, StoreError> {
        // Two servers may create the counter concurrently; the second attempt finds it.
        for _ in 0..2 {
            let counted = self
                .records
                .find_one_and_update(
                    doc! { "_id": COUNTER_ID },
                    doc! { "$inc": { "value": 1_i64 } },
                )
                .upsert(true)
                .return_document(ReturnDocument::After);
            match run_with_timeout(async { counted.await }).await? {
                Ok(Some(counted)) => {
                    let value = counted.get_i64("value").ok().and_then(|n| u64::try_from(n).ok());
                    let invalid_counter = || {
                        StoreError::Unavailable(format!(
                            "the counter in `{RECORDS_COLLECTION}` is not a number"
                        ))
                    };
                    return value.map(Version).ok_or_else(invalid_counter);
                }
                Ok(None) => {}
                Err(error) if is_duplicate(&error) => {}
                Err(error) => return Err(to_store_error(&error)),
            }
        }
        Err(StoreError::Unavailable(format!("cannot create the counter in `{RECORDS_COLLECTION}`")))
    }

    async fn read_all(&self) -> Result<Vec<VersionedValue>, StoreError> {
        self.ensure_index().await?;
        let mut rows = Vec::new();
        let mut found = run_with_timeout(async {
            self.records.find(doc! { "text": { "$exists": true } }).await
        })
        .await?
        .map_err(|error| to_store_error(&error))?;
        let max_rows = 2 * MAX_NODES * MAX_TOOLS_PER_NODE;
        while run_with_timeout(found.advance()).await?.map_err(|error| to_store_error(&error))? {
            let read = found.deserialize_current().map_err(|error| to_store_error(&error))?;
            rows.extend(decode_record(&read));
            check_row_count(&rows, max_rows)?;
        }
        // Nodes before owners.
        rows.sort_unstable_by(|one, other| one.key.cmp(&other.key));
        let mut found = run_with_timeout(async { self.tools.find(doc! {}).await })
            .await?
            .map_err(|error| to_store_error(&error))?;
        while run_with_timeout(found.advance()).await?.map_err(|error| to_store_error(&error))? {
            let read = found.deserialize_current().map_err(|error| to_store_error(&error))?;
            rows.extend(self.decode_row(&read));
            check_row_count(&rows, max_rows)?;
        }
        Ok(rows)
    }

    /// Decodes a tool. Documents of other programs are logged and ignored.
    fn decode_row(&self, source: &Document) -> Option<VersionedValue> {
        let row = decode_tool(source).inspect_err(|why| {
            let (name, node) = (source.get_str("name").ok(), source.get_str("node_id").ok());
            tracing::warn!(
                name,
                node,
                why,
                "a document of `{TOOLS_COLLECTION}` is not a tool of this registry"
            );
        });
        let row = row.ok()?;
        if let Ok(id) = source.get_object_id("_id") {
            self.keys_by_id
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .insert(id, row.key.clone());
        }
        Some(row)
    }

    async fn find_record(&self, key: &str) -> Result<Option<VersionedValue>, StoreError> {
        let Some((node, name)) = parse_tool_key(key) else {
            let found =
                run_with_timeout(async { self.records.find_one(doc! { "_id": key }).await })
                    .await?;
            return Ok(found
                .map_err(|error| to_store_error(&error))?
                .as_ref()
                .and_then(decode_record));
        };
        let found = run_with_timeout(async {
            self.tools.find_one(doc! { "name": name, "node_id": node }).await
        });
        let Some(found) = found.await?.map_err(|error| to_store_error(&error))? else {
            return Ok(None);
        };
        self.decode_row(&found).map(Some).ok_or_else(|| {
            StoreError::Unavailable(format!(
                "`{TOOLS_COLLECTION}` has a document for `{name}` on `{node}` that this registry did not write; \
                 remove it there"
            ))
        })
    }

    async fn write_record(
        &self,
        key: &str,
        expect: WritePrecondition,
        bytes: Option<Bytes>,
    ) -> Result<Version, StoreError> {
        self.ensure_index().await?;
        let version = self.next_version().await?;
        let tool_key_parts = parse_tool_key(key);
        let collection = if tool_key_parts.is_some() { &self.tools } else { &self.records };
        let mut filter = tool_key_parts
            .map_or(doc! { "_id": key }, |(node, name)| doc! { "name": name, "node_id": node });
        let document = match (&bytes, tool_key_parts) {
            (None, _) => None,
            (Some(bytes), Some(_)) => Some(encode_tool(bytes, version)?),
            (Some(bytes), None) => Some(documents::encode_record(key, bytes, version)),
        };
        let done = match (expect, document) {
            (WritePrecondition::Absent, None) => return Ok(version),
            (WritePrecondition::Absent, Some(document)) => {
                run_with_timeout(async { collection.insert_one(document).await })
                    .await?
                    .map(|_| true)
            }
            (WritePrecondition::Version(old), document) => {
                filter.insert("version", documents::to_bson_integer(old.0));
                match document {
                    Some(document) => {
                        run_with_timeout(async { collection.replace_one(filter, document).await })
                            .await?
                            .map(|done| done.matched_count == 1)
                    }
                    None => run_with_timeout(async { collection.delete_one(filter).await })
                        .await?
                        .map(|done| done.deleted_count == 1),
                }
            }
        };
        match done {
            Ok(true) => Ok(version),
            Ok(false) => Err(StoreError::Conflict { key: key.to_owned() }),
            Err(error) if is_duplicate(&error) => Err(StoreError::Conflict { key: key.to_owned() }),
            Err(error) => Err(to_store_error(&error)),
        }
    }
}

fn check_row_count(rows: &[VersionedValue], max_rows: usize) -> Result<(), StoreError> {
    let limit_error =
        || StoreError::Unavailable(format!("MongoDB has more than {max_rows} node records"));
    (rows.len() <= max_rows).then_some(()).ok_or_else(limit_error)
}

impl fmt::Debug for MongoRegistryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MongoRegistryStore")
            .field("tools", &self.tools.namespace())
            .finish_non_exhaustive()
    }
}

impl RegistryStore for MongoRegistryStore {
    fn load_all(&self) -> BoxFuture<'_, Result<Vec<VersionedValue>, StoreError>> {
        Box::pin(self.read_all())
    }

    fn get_record<'a>(
        &'a self,
        key: &'a str,
    ) -> BoxFuture<'a, Result<Option<VersionedValue>, StoreError>> {
        Box::pin(self.find_record(key))
    }

    fn put_record<'a>(
        &'a self,
        key: &'a str,
        expect: WritePrecondition,
        bytes: Option<Bytes>,
    ) -> BoxFuture<'a, Result<Version, StoreError>> {
        Box::pin(self.write_record(key, expect, bytes))
    }

    fn normalize_tool(&self, tool: NodeTool) -> Result<NodeTool, String> {
        documents::normalize_tool(tool)
    }

    fn subscribe_changes(
        &self,
    ) -> BoxFuture<'_, Result<Option<Box<dyn ChangeReceiver>>, StoreError>> {
        Box::pin(async {
            let heard =
                change_stream::MongoChangeFeed::open_stream(&self.tools, &self.keys_by_id).await?;
            Ok(Some(Box::new(heard) as Box<dyn ChangeReceiver>))
        })
    }
}
