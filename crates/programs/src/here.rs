//! Who has a program in hand here: looks at it, ends it, or runs it.

use tokio_util::sync::CancellationToken;
use tool::CallId;

use crate::Programs;
use crate::index::{Claim, Taken};
use crate::keep::{Kept, Row};
use crate::program::{Program, State};

/// One has a program in hand as long as this is there.
pub(crate) struct Here<'a> {
    programs: &'a Programs,
    claim: Claim,
}

impl Programs {
    /// To look whether it can go on, which shows itself to nobody. Who was `asked` to by its caller takes over
    /// from one that looks unasked. Nothing where another has it in hand.
    pub(crate) fn looks(&self, row: &Row, asked: bool) -> Option<Here<'_>> {
        let claim = self.index().looks(row, asked)?;
        Some(Here { programs: self, claim })
    }

    /// To end it; takes over from one that looks.
    pub(crate) fn ends(&self, row: &Row) -> Result<Here<'_>, Taken> {
        let claim = self.index().ends(row)?;
        Ok(Here { programs: self, claim })
    }
}

impl Here<'_> {
    /// From now on it runs, as it is here, for all to see; whether it may: another may have taken over.
    pub(crate) fn runs(&self, program: &Program) -> bool {
        self.programs.index().runs(&self.claim, program)
    }

    /// From now on nobody takes over; whether it may go on.
    pub(crate) fn stays(&self) -> bool {
        self.programs.index().stays(&self.claim)
    }

    /// Fires when its caller gives up what runs.
    pub(crate) fn own(&self) -> CancellationToken {
        self.claim.own()
    }

    /// It came as far as it comes now, and is in hand no longer: both at once, so that nobody who looks sees
    /// one that came to its end still running, and waits for it.
    /// These calls it waited for before.
    pub(crate) fn came(&self, kept: &Kept, waited: &[CallId]) {
        {
            let mut index = self.programs.index();
            index.came(kept, waited);
            index.leaves(&self.claim);
        }
        if kept.program.state == State::Waiting {
            // What was decided before it stood in the index was news to nobody.
            for call in kept.program.waits_for() {
                self.programs.parts.pending_calls.queue(call);
            }
        }
    }
}

impl Drop for Here<'_> {
    fn drop(&mut self) {
        self.programs.index().leaves(&self.claim);
    }
}
