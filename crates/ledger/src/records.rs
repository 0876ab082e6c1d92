//! Reading: the newest records by the index, older ones by going through segments.
//!
//! Reads run on threads of their own, two at a time, so that a long search does not slow calls.

use std::sync::Arc;

use tool::ledger::{Kind, Page, Query, Record, Records};
use tool::{Boxed, CallId, Json, LedgerError, Limits};

use crate::file_ledger::FileLedger;
use crate::frame::{Form, Frame};
use crate::inner::Inner;
use crate::search::Search;
use crate::shown::Shown;

/// So many records are listed at most, whatever is asked for.
const MAX_LIMIT: usize = 1_000;

/// A frame as it is shown; `None` where its body cannot be read.
pub(crate) fn record(frame: &Frame<'_>) -> Option<Record> {
    let body = match frame.form {
        Form::Json => Json::check(frame.body.to_vec(), Limits::DOCUMENT).ok()?,
        Form::MessagePack => Json::of(&frame.read::<Shown>()?.0),
    };
    Some(Record { seq: frame.seq, kind: frame.kind, call: frame.call, body })
}

/// Whether the records of a call begin with one of this kind.
pub(crate) fn begins(kind: Kind) -> bool {
    matches!(kind, Kind::Intent | Kind::Refused)
}

impl FileLedger {
    async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Inner) -> T + Send + 'static,
    ) -> Result<T, LedgerError> {
        let inner = Arc::clone(&self.inner);
        let stopped = |_| LedgerError::new("the record cannot be read: the server is stopping");
        let _turn = self.inner.searches.acquire().await.map_err(stopped)?;
        let settled = move || {
            inner.settle_late();
            read(&inner)
        };
        let read = tokio::task::spawn_blocking(settled).await;
        read.map_err(|_| LedgerError::new("a fault in Toolkeep while the record was read"))
    }

    async fn list_records(&self, mut query: Query) -> Result<Page, LedgerError> {
        query.limit = query.limit.min(MAX_LIMIT);
        self.read(|inner| Search::new(inner, query).list()).await?
    }

    async fn records_of(&self, call: CallId) -> Result<Vec<Record>, LedgerError> {
        self.read(move |inner| Search::new(inner, Query::default()).of_call(call)).await?
    }
}

impl Records for FileLedger {
    /// 1,000 at most; 32 MiB of segments are read for them, or one part of a segment. Of the kinds, only intents, waits, outcomes and refusals have a tool and an
    /// organisation.
    fn list(&self, query: Query) -> Boxed<'_, Result<Page, LedgerError>> {
        Box::pin(self.list_records(query))
    }

    fn of_call(&self, call: CallId) -> Boxed<'_, Result<Vec<Record>, LedgerError>> {
        Box::pin(self.records_of(call))
    }

    /// A call runs where a ticket of this process holds it.
    fn is_running(&self, call: CallId) -> bool {
        self.inner.is_live(call)
    }
}
