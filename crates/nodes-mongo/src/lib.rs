//! The registry in a MongoDB that servers share: tools as spec 4 has them in `cluster_local_tools`, and
//! whose names are whose beside them.
//!
//! The driver makes its own connections, to the servers that the operator's URL names and no others.
//! Nothing here waits long: what does not answer is told, and the registry goes on from memory.

mod change_stream;
mod document;
mod driver_error;
mod value;

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
use tool::node::NodeTool;
use tool::store::Expect;
use tool::{Boxed, Secret, StoreError, Version, Versioned};

use document::{record, tool_document, tool_row};
use driver_error::{is_duplicate, unavailable, within};
use nodes::{Heard, Keep, MOST_NODES, MOST_TOOLS, tool_of};

/// Spec 4's collection.
const TOOLS: &str = "cluster_local_tools";
/// Owners of names and nodes.
const OTHERS: &str = "toolkeep_nodes";
/// The database where the URL names none, as spec 4's program has it.
const DATABASE: &str = "tools_db";
/// Where versions come from.
const COUNTER: &str = "counter";
/// Time to find a server.
const SELECT: Duration = Duration::from_secs(2);
/// Connections at once; none is kept for nothing.
const CONNECTIONS: u32 = 8;

/// Keeps the registry in a MongoDB.
pub struct MongoKeep {
    tools: Collection<Document>,
    others: Collection<Document>,
    /// The unique index is made once, before the first write.
    indexed: OnceCell<()>,
    /// Which key a document is under: a removal names its id alone.
    ids: Arc<Mutex<HashMap<ObjectId, String>>>,
}

impl MongoKeep {
    /// At `mongodb://[USER[:PASSWORD]@]HOST[:PORT],…/[DATABASE][?…]`. Reads the URL; connections are made
    /// when they are needed. Must be called on a runtime that outlives all calls.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] where the URL cannot be used; it is not shown.
    pub async fn open(url: &Secret) -> Result<Self, StoreError> {
        let unfit = |why: &str| {
            StoreError::Unavailable(format!("the URL of the MongoDB cannot be used: {why}"))
        };
        if url.open().starts_with("mongodb+srv:") {
            return Err(unfit(
                "it asks for a look-up of servers; name them, as `mongodb://HOST:PORT`",
            ));
        }
        let options = ClientOptions::parse(url.open()).await;
        // Its words may repeat the URL, with the password.
        let mut options =
            options.map_err(|_| unfit("write it as `mongodb://HOST:PORT/DATABASE`"))?;
        options.server_selection_timeout = Some(SELECT);
        options.connect_timeout = Some(SELECT);
        options.max_pool_size = Some(CONNECTIONS);
        options.min_pool_size = Some(0);
        options.app_name.get_or_insert_with(|| "toolkeep".to_owned());
        // A write that is lost with its server was none, and an old one is never read.
        options.write_concern = Some(WriteConcern::majority());
        options.read_concern = Some(ReadConcern::majority());
        options.selection_criteria =
            Some(SelectionCriteria::ReadPreference(mongodb::options::ReadPreference::Primary));
        let database = options.default_database.clone().unwrap_or_else(|| DATABASE.to_owned());
        let client = Client::with_options(options).map_err(|_| unfit("its options contradict"))?;
        let database = client.database(&database);
        Ok(Self {
            tools: database.collection(TOOLS),
            others: database.collection(OTHERS),
            indexed: OnceCell::new(),
            ids: Arc::default(),
        })
    }

    /// (name, node_id) is unique, whoever writes.
    async fn index(&self) -> Result<(), StoreError> {
        let made = self.indexed.get_or_try_init(async || {
            let options = IndexOptions::builder().unique(true).build();
            let keys = doc! { "name": 1, "node_id": 1 };
            let model = IndexModel::builder().keys(keys).options(options).build();
            match within(self.tools.create_index(model)).await? {
                Ok(_) => Ok(()),
                Err(error) if is_duplicate(&error) => Err(StoreError::Unavailable(format!(
                    "`{TOOLS}` has a tool twice under one name and node, so that it cannot be made \
                     unique; remove one of the two"
                ))),
                Err(error) => Err(unavailable(&error)),
            }
        });
        made.await.copied()
    }

    /// A number above all before it, whichever server asks.
    async fn next(&self) -> Result<Version, StoreError> {
        // Two servers may make the counter at once; the second try finds it.
        for _ in 0..2 {
            let counted = self
                .others
                .find_one_and_update(doc! { "_id": COUNTER }, doc! { "$inc": { "value": 1_i64 } })
                .upsert(true)
                .return_document(ReturnDocument::After);
            match within(async { counted.await }).await? {
                Ok(Some(counted)) => {
                    let value = counted.get_i64("value").ok().and_then(|n| u64::try_from(n).ok());
                    let unread = || {
                        StoreError::Unavailable(format!("the counter in `{OTHERS}` is no number"))
                    };
                    return value.map(Version).ok_or_else(unread);
                }
                Ok(None) => {}
                Err(error) if is_duplicate(&error) => {}
                Err(error) => return Err(unavailable(&error)),
            }
        }
        Err(StoreError::Unavailable(format!("the counter in `{OTHERS}` cannot be made")))
    }

    async fn read(&self) -> Result<Vec<Versioned>, StoreError> {
        self.index().await?;
        let mut rows = Vec::new();
        let mut found =
            within(async { self.others.find(doc! { "text": { "$exists": true } }).await })
                .await?
                .map_err(|error| unavailable(&error))?;
        let most = 2 * MOST_NODES * MOST_TOOLS;
        while within(found.advance()).await?.map_err(|error| unavailable(&error))? {
            let read = found.deserialize_current().map_err(|error| unavailable(&error))?;
            rows.extend(record(&read));
            bounded(&rows, most)?;
        }
        // Nodes before owners.
        rows.sort_unstable_by(|one, other| one.key.cmp(&other.key));
        let mut found = within(async { self.tools.find(doc! {}).await })
            .await?
            .map_err(|error| unavailable(&error))?;
        while within(found.advance()).await?.map_err(|error| unavailable(&error))? {
            let read = found.deserialize_current().map_err(|error| unavailable(&error))?;
            rows.extend(self.row(&read));
            bounded(&rows, most)?;
        }
        Ok(rows)
    }

    /// A tool as it is kept; what others put there is told, and none of ours.
    fn row(&self, read: &Document) -> Option<Versioned> {
        let row = tool_row(read).inspect_err(|why| {
            let (name, node) = (read.get_str("name").ok(), read.get_str("node_id").ok());
            tracing::warn!(name, node, why, "a document of `{TOOLS}` is no tool of this registry");
        });
        let row = row.ok()?;
        if let Ok(id) = read.get_object_id("_id") {
            self.ids.lock().unwrap_or_else(PoisonError::into_inner).insert(id, row.key.clone());
        }
        Some(row)
    }

    async fn one(&self, key: &str) -> Result<Option<Versioned>, StoreError> {
        let Some((node, name)) = tool_of(key) else {
            let found = within(async { self.others.find_one(doc! { "_id": key }).await }).await?;
            return Ok(found.map_err(|error| unavailable(&error))?.as_ref().and_then(record));
        };
        let found =
            within(async { self.tools.find_one(doc! { "name": name, "node_id": node }).await });
        let Some(found) = found.await?.map_err(|error| unavailable(&error))? else {
            return Ok(None);
        };
        self.row(&found).map(Some).ok_or_else(|| {
            StoreError::Unavailable(format!(
                "`{TOOLS}` has a document for `{name}` on `{node}` that this registry did not write; \
                 remove it there"
            ))
        })
    }

    async fn write(
        &self,
        key: &str,
        expect: Expect,
        bytes: Option<Bytes>,
    ) -> Result<Version, StoreError> {
        self.index().await?;
        let version = self.next().await?;
        let tool = tool_of(key);
        let collection = if tool.is_some() { &self.tools } else { &self.others };
        let mut filter =
            tool.map_or(doc! { "_id": key }, |(node, name)| doc! { "name": name, "node_id": node });
        let document = match (&bytes, tool) {
            (None, _) => None,
            (Some(bytes), Some(_)) => Some(tool_document(bytes, version)?),
            (Some(bytes), None) => Some(document::record_document(key, bytes, version)),
        };
        let done = match (expect, document) {
            (Expect::Absent, None) => return Ok(version),
            (Expect::Absent, Some(document)) => {
                within(async { collection.insert_one(document).await }).await?.map(|_| true)
            }
            (Expect::Version(old), document) => {
                filter.insert("version", document::number(old.0));
                match document {
                    Some(document) => {
                        within(async { collection.replace_one(filter, document).await })
                            .await?
                            .map(|done| done.matched_count == 1)
                    }
                    None => within(async { collection.delete_one(filter).await })
                        .await?
                        .map(|done| done.deleted_count == 1),
                }
            }
        };
        match done {
            Ok(true) => Ok(version),
            Ok(false) => Err(StoreError::Conflict { key: key.to_owned() }),
            Err(error) if is_duplicate(&error) => Err(StoreError::Conflict { key: key.to_owned() }),
            Err(error) => Err(unavailable(&error)),
        }
    }
}

fn bounded(rows: &[Versioned], most: usize) -> Result<(), StoreError> {
    let told = || StoreError::Unavailable(format!("the MongoDB has over {most} records of nodes"));
    (rows.len() <= most).then_some(()).ok_or_else(told)
}

impl fmt::Debug for MongoKeep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MongoKeep").field("tools", &self.tools.namespace()).finish_non_exhaustive()
    }
}

impl Keep for MongoKeep {
    fn all(&self) -> Boxed<'_, Result<Vec<Versioned>, StoreError>> {
        Box::pin(self.read())
    }

    fn get<'a>(&'a self, key: &'a str) -> Boxed<'a, Result<Option<Versioned>, StoreError>> {
        Box::pin(self.one(key))
    }

    fn put<'a>(
        &'a self,
        key: &'a str,
        expect: Expect,
        bytes: Option<Bytes>,
    ) -> Boxed<'a, Result<Version, StoreError>> {
        Box::pin(self.write(key, expect, bytes))
    }

    fn as_kept(&self, tool: NodeTool) -> Result<NodeTool, String> {
        document::as_kept(tool)
    }

    fn listen(&self) -> Boxed<'_, Result<Option<Box<dyn Heard>>, StoreError>> {
        Box::pin(async {
            let heard = change_stream::Stream::open(&self.tools, &self.ids).await?;
            Ok(Some(Box::new(heard) as Box<dyn Heard>))
        })
    }
}
