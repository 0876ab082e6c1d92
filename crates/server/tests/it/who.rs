//! Who asks: keys that are handed on, roles, users, organisations, tokens, and how each ends.

mod creation;
mod directory;
mod handed;
mod hazards;
mod resource;
mod revocation;
mod tokens;
