//! Who waits for changes of a program.

use std::sync::Arc;

use tokio::sync::watch;
use tool::CallId;

use crate::Programs;
use crate::index::Told;

/// Hears of the changes of one program.
pub(crate) struct Watching {
    programs: Arc<Programs>,
    id: CallId,
    changes: Option<watch::Receiver<Option<Arc<Told>>>>,
}

impl Watching {
    /// From here on: begun before it is looked at, so that no change is missed.
    pub(crate) fn new(programs: &Arc<Programs>, id: CallId) -> Self {
        let changes = Some(programs.index().watch(id));
        Self { programs: Arc::clone(programs), id, changes }
    }

    /// The next change; nothing where there will be none.
    pub(crate) async fn next(&mut self) -> Option<Arc<Told>> {
        let changes = self.changes.as_mut()?;
        changes.changed().await.ok()?;
        changes.borrow_and_update().clone()
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        self.changes = None;
        self.programs.index().unwatch(self.id);
    }
}
