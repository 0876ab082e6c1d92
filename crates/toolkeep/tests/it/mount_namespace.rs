//! Tests that mount a file system in their own namespace; they need root or user namespaces.

mod full_disk;
