//! What is on record that is no call: changes of what decides over calls.

use tool::LedgerError;
use tool::ledger::{Event, Events, Kind};

use crate::file_ledger::FileLedger;
use crate::frame::Draft;
use crate::inner::Inner;
use crate::state::Mode;

impl Inner {
    fn note(&self, event: &Event) -> Result<(), LedgerError> {
        let mut draft = Draft::new(Kind::Event, None, event)?;
        let tool = event.tool.as_ref().map_or("", |tool| tool.as_str());
        let label = self.label(
            event.org.as_str(),
            tool,
            event.by.as_ref().map_or("", |by| by.subject.as_str()),
        );
        let mut state = self.lock();
        // What is left of a full disk is for calls.
        if !matches!(state.mode, Mode::Open) {
            state.health(&self.site.dir)?;
        }
        self.append(&mut state, &mut draft, Some(label))
    }
}

impl Events for FileLedger {
    fn note(&self, event: &Event) -> Result<(), LedgerError> {
        self.inner.note(event)
    }
}
