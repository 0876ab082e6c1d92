//! File access by untrusted paths: confined to a root, regular files only, bounded in size.

pub mod files;
pub mod private_file;
pub mod roots;
