//! Record reads: the newest records from the index, older ones by scanning segments.
//!
//! Reads run on separate threads, two at a time, so that a long search does not slow calls.

use std::sync::Arc;

use tool::ledger::{LedgerRecord, RecordKind, RecordPage, RecordQuery, RecordReader};
use tool::{BoxFuture, CallId, Json, JsonLimits, LedgerError};

use crate::file_ledger::FileLedger;
use crate::frame::{BodyEncoding, Frame};
use crate::ledger_inner::LedgerInner;
use crate::msgpack_json::MsgpackValue;
use crate::record_search::RecordSearch;

/// Maximum number of listed records, whatever is requested.
const MAX_PAGE_RECORDS: usize = 1_000;

/// Decodes a frame as a record; `None` if its body cannot be read.
pub(crate) fn decode_record(frame: &Frame<'_>) -> Option<LedgerRecord> {
    let body = match frame.encoding {
        BodyEncoding::Json => Json::parse(frame.body.to_vec(), JsonLimits::DOCUMENT).ok()?,
        BodyEncoding::MessagePack => Json::encode(&frame.decode_body::<MsgpackValue>()?.0),
    };
    Some(LedgerRecord { sequence: frame.seq, kind: frame.kind, call_id: frame.call_id, body })
}

/// Returns whether a record of this kind is the first of its call.
pub(crate) fn is_first_of_call(kind: RecordKind) -> bool {
    matches!(kind, RecordKind::Intent | RecordKind::Refusal)
}

impl FileLedger {
    pub(crate) async fn run_read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&LedgerInner) -> T + Send + 'static,
    ) -> Result<T, LedgerError> {
        let inner = Arc::clone(&self.inner);
        let stopped = |_| LedgerError::new("the record cannot be read: the server is stopping");
        let _turn = self.inner.search_permits.acquire().await.map_err(stopped)?;
        let settled = move || {
            inner.write_dropped_receipts();
            read(&inner)
        };
        let read = tokio::task::spawn_blocking(settled).await;
        read.map_err(|_| LedgerError::new("an internal error of Toolkeep while reading the record"))
    }

    async fn list_records(&self, mut query: RecordQuery) -> Result<RecordPage, LedgerError> {
        query.limit = query.limit.min(MAX_PAGE_RECORDS);
        self.run_read(|inner| RecordSearch::new(inner, query).list_page()).await?
    }

    async fn read_records_of(&self, call: CallId) -> Result<Vec<LedgerRecord>, LedgerError> {
        self.run_read(move |inner| {
            RecordSearch::new(inner, RecordQuery::default()).list_for_call(call)
        })
        .await?
    }
}

impl RecordReader for FileLedger {
    /// 1,000 at most; 32 MiB of segments are read for them, or one part of a segment. Of the kinds, only intents, waits, outcomes and refusals have a tool and an
    /// organisation.
    fn list_records(&self, query: RecordQuery) -> BoxFuture<'_, Result<RecordPage, LedgerError>> {
        Box::pin(self.list_records(query))
    }

    fn list_for_call(&self, call: CallId) -> BoxFuture<'_, Result<Vec<LedgerRecord>, LedgerError>> {
        Box::pin(self.read_records_of(call))
    }

    /// Returns whether this process holds the receipt of the call.
    fn is_running(&self, call: CallId) -> bool {
        self.inner.is_running(call)
    }
}
