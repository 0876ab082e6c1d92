//! One file per provider, both directions. Pure.
