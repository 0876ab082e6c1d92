//! Sources to catalog: supervision, last good, refresh.
