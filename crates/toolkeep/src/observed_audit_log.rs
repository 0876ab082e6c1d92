//! Passes changes of pins from the record to the events of the server.

use std::sync::Arc;

use ledger::FileLedger;
use server_core::EventLog;
use tool::ledger::{AuditEventRecord, AuditLog, LedgerError};

/// A record of changes that also adds them as events.
#[derive(Debug)]
pub(crate) struct ObservedAuditLog {
    ledger: Arc<FileLedger>,
    events: Arc<EventLog>,
}

impl ObservedAuditLog {
    pub(crate) fn wrap(ledger: &Arc<FileLedger>, events: &Arc<EventLog>) -> Arc<dyn AuditLog> {
        Arc::new(Self { ledger: Arc::clone(ledger), events: Arc::clone(events) })
    }
}

impl AuditLog for ObservedAuditLog {
    fn record_event(&self, event: &AuditEventRecord) -> Result<(), LedgerError> {
        self.ledger.record_event(event)?;
        self.events.push_audit_event(event);
        Ok(())
    }
}
