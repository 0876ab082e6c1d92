"""Generated from `crates/proto/proto` by grpcio-tools 1.60, the oldest that is supported."""
