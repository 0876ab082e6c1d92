//! What the tests share: an installation on disk, the server in it, those who call it, and the modules
//! and processes around it.

pub(crate) mod child;
pub(crate) mod client;
pub(crate) mod home;
pub(crate) mod marks;
pub(crate) mod module;
pub(crate) mod random;
pub(crate) mod server;

/// `few` tries, or `many` where `TOOLKEEP_DEEP` is set, as `cargo xtask test --deep` does.
pub(crate) fn tries(few: usize, many: usize) -> usize {
    if std::env::var_os("TOOLKEEP_DEEP").is_some() { many } else { few }
}
