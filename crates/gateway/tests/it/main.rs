//! The crate as a library that other programs embed.

mod embed;
