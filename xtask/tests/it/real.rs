//! Tests that need what `cargo xtask provision` installs, in `TOOLKEEP_REAL`.

mod installs;
