//! The append-only record: segments, sync thread, chain, verify; on a Disk port.
