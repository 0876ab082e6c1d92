//! With programs that were installed: `TOOLKEEP_REAL` names their folder.

mod console;
