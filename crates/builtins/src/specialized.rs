//! Tools that fit no other category.

pub(crate) mod echo;
