//! File access by untrusted paths: confined to a root, regular files only, bounded in size.

pub mod file_replacement;
pub mod private_file;
pub mod regular_file;
pub mod rooted_dir;
