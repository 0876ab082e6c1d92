//! The change stream of the tools collection: writes of other servers reach this one.

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
use tool::{Boxed, StoreError};

use super::document::tool_row;
use super::driver_error::{unavailable, within};
use nodes::{Change, Heard};

/// How long the server waits for news before it says that there are none.
const AWAIT: Duration = Duration::from_secs(1);
/// A server that says so at once is not asked again at once.
const PAUSE: Duration = Duration::from_millis(100);

pub(super) struct Stream {
    stream: ChangeStream<ChangeStreamEvent<Document>>,
    ids: Arc<Mutex<HashMap<ObjectId, String>>>,
}

impl Stream {
    pub(super) async fn open(
        tools: &Collection<Document>,
        ids: &Arc<Mutex<HashMap<ObjectId, String>>>,
    ) -> Result<Self, StoreError> {
        let watch =
            tools.watch().full_document(FullDocumentType::UpdateLookup).max_await_time(AWAIT);
        let stream = within(async { watch.await }).await?.map_err(|error| unavailable(&error))?;
        Ok(Self { stream, ids: Arc::clone(ids) })
    }

    async fn heard(&mut self) -> Result<Change, StoreError> {
        loop {
            let asked = Instant::now();
            let next = within(self.stream.next_if_any()).await?;
            match next.map_err(|error| unavailable(&error))? {
                Some(event) => {
                    if let Some(change) = self.change(event)? {
                        return Ok(change);
                    }
                }
                None if asked.elapsed() < PAUSE => sleep(PAUSE).await,
                None => {}
            }
        }
    }

    fn change(&self, event: ChangeStreamEvent<Document>) -> Result<Option<Change>, StoreError> {
        use OperationType::{Delete, Insert, Replace, Update};
        let mut ids = self.ids.lock().unwrap_or_else(PoisonError::into_inner);
        let id = event.document_key.as_ref().and_then(|key| key.get_object_id("_id").ok());
        match event.operation_type {
            Insert | Replace | Update => {
                // Where it is gone by now, its removal comes too.
                let Some(document) = event.full_document else { return Ok(None) };
                match tool_row(&document) {
                    Ok(row) => {
                        if let Some(id) = id {
                            ids.insert(id, row.key.clone());
                        }
                        Ok(Some(Change::Written(row)))
                    }
                    Err(why) => {
                        tracing::warn!(
                            why,
                            "a document that somebody wrote is no tool of this registry"
                        );
                        Ok(id.and_then(|id| ids.get(&id).cloned()).map(Change::Touched))
                    }
                }
            }
            // What nobody knew of is nobody's loss.
            Delete => Ok(id.and_then(|id| ids.remove(&id)).map(Change::Touched)),
            _ => Err(StoreError::Unavailable(
                "MongoDB: the collection of tools was changed as a whole".to_owned(),
            )),
        }
    }
}

impl Heard for Stream {
    fn next(&mut self) -> Boxed<'_, Result<Change, StoreError>> {
        Box::pin(self.heard())
    }
}
