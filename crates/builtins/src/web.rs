//! Tools that ask servers of the open net. Every request goes through guard's connector.

mod exchange;
pub(crate) mod http_get;
pub(crate) mod http_post;

#[cfg(test)]
mod tests;
