//! Packages of `cargo xtask dist`, installed in new roots, up to the first tool call.
//!
//! Each test prints how long that takes. The packages are built once for all tests from the program
//! that the tests' own build made, or from the one that `TOOLKEEP_DIST_BINARY` names.

mod built_packages;
mod command_run;
mod container_image;
mod debian;
mod debian_root;
mod file_server;
mod guide_commands;
mod image_build;
mod npm;
mod reproducible_build;
mod script;
mod served_call;
mod wheel;
