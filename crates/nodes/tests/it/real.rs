//! Against servers that were installed: `TOOLKEEP_REAL` names their folder.

mod mongo;
