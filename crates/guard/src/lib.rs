//! The only crate that dials or spawns: egress connector, process launcher, file roots.
