//! The built-in tools as they are offered, against data of others.

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "it times what must end")]
mod data;
#[cfg(test)]
mod page;
#[cfg(test)]
mod stage;
