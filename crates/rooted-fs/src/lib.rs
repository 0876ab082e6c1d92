//! Files that others name: opened beneath a root, regular, to a bound, and never through a link.

pub mod files;
pub mod private_file;
pub mod roots;
