//! Audit events: records of changes that affect decisions over calls.

use tool::LedgerError;
use tool::ledger::{AuditEventRecord, AuditLog, RecordKind};

use crate::file_ledger::FileLedger;
use crate::frame::FrameBuilder;
use crate::ledger_inner::LedgerInner;
use crate::ledger_state::LedgerMode;

impl LedgerInner {
    fn append_audit_event(&self, event: &AuditEventRecord) -> Result<(), LedgerError> {
        let mut draft = FrameBuilder::json(RecordKind::AuditEvent, None, event)?;
        let tool = event.tool.as_ref().map_or("", |tool| tool.as_str());
        let label = self.search_key(
            event.org.as_str(),
            tool,
            event.changed_by.as_ref().map_or("", |by| by.subject.as_str()),
        );
        let mut state = self.lock_state();
        // The space that a full disk has left is for calls.
        if !matches!(state.mode, LedgerMode::Accepting) {
            state.check_health(&self.writer_dir.dir)?;
        }
        self.append_frame(&mut state, &mut draft, Some(label))
    }
}

impl AuditLog for FileLedger {
    fn record_event(&self, event: &AuditEventRecord) -> Result<(), LedgerError> {
        self.inner.append_audit_event(event)
    }
}
