//! The change stream of the tools collection, which reports the writes of other servers.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use mongodb::Collection;
use mongodb::bson::Document;
use mongodb::bson::oid::ObjectId;
use mongodb::change_stream::ChangeStream;
use mongodb::change_stream::event::{ChangeStreamEvent, OperationType};
use mongodb::options::FullDocumentType;
use tokio::time::{Instant, sleep};
use tool::{BoxFuture, StoreError};

use super::documents::decode_tool;
use super::driver_error::{run_with_timeout, to_store_error};
use nodes::{ChangeReceiver, RecordChange};

/// Maximum time for which MongoDB waits for a change.
const MAX_AWAIT_TIME: Duration = Duration::from_secs(1);
/// Pause after a poll that returned early without a change.
const EMPTY_POLL_PAUSE: Duration = Duration::from_millis(100);

pub(super) struct MongoChangeFeed {
    stream: ChangeStream<ChangeStreamEvent<Document>>,
    keys_by_id: Arc<Mutex<HashMap<ObjectId, String>>>,
}

impl MongoChangeFeed {
    pub(super) async fn open_stream(
        tools: &Collection<Document>,
        keys_by_id: &Arc<Mutex<HashMap<ObjectId, String>>>,
    ) -> Result<Self, StoreError> {
        let watch = tools
            .watch()
            .full_document(FullDocumentType::UpdateLookup)
            .max_await_time(MAX_AWAIT_TIME);
        let stream = run_with_timeout(async { watch.await })
            .await?
            .map_err(|error| to_store_error(&error))?;
        Ok(Self { stream, keys_by_id: Arc::clone(keys_by_id) })
    }

    async fn next_registry_change(&mut self) -> Result<RecordChange, StoreError> {
        loop {
            let polled_at = Instant::now();
            let next = run_with_timeout(self.stream.next_if_any()).await?;
            match next.map_err(|error| to_store_error(&error))? {
                Some(event) => {
                    if let Some(change) = self.convert_event(event)? {
                        return Ok(change);
                    }
                }
                None if polled_at.elapsed() < EMPTY_POLL_PAUSE => sleep(EMPTY_POLL_PAUSE).await,
                None => {}
            }
        }
    }

    fn convert_event(
        &self,
        event: ChangeStreamEvent<Document>,
    ) -> Result<Option<RecordChange>, StoreError> {
        use OperationType::{Delete, Insert, Replace, Update};
        let mut keys_by_id = self.keys_by_id.lock().unwrap_or_else(PoisonError::into_inner);
        let id = event.document_key.as_ref().and_then(|key| key.get_object_id("_id").ok());
        match event.operation_type {
            Insert | Replace | Update => {
                // If the document is gone by now, its removal event follows.
                let Some(document) = event.full_document else { return Ok(None) };
                match decode_tool(&document) {
                    Ok(row) => {
                        if let Some(id) = id {
                            keys_by_id.insert(id, row.key.clone());
                        }
                        Ok(Some(RecordChange::Updated(row)))
                    }
                    Err(why) => {
                        tracing::warn!(why, "a changed document is not a tool of this registry");
                        Ok(id
                            .and_then(|id| keys_by_id.get(&id).cloned())
                            .map(RecordChange::Invalidated))
                    }
                }
            }
            // An unknown document needs no event.
            Delete => Ok(id.and_then(|id| keys_by_id.remove(&id)).map(RecordChange::Invalidated)),
            _ => Err(StoreError::Unavailable(
                "MongoDB: the collection of tools was dropped or renamed".to_owned(),
            )),
        }
    }
}

impl ChangeReceiver for MongoChangeFeed {
    fn next_change(&mut self) -> BoxFuture<'_, Result<RecordChange, StoreError>> {
        Box::pin(self.next_registry_change())
    }
}
