//! Cached metric handles for each interface, which avoid hashing labels for each call.

use std::sync::OnceLock;

use tool::Interface;

/// One value for each interface, created on first use, so that the metrics page only shows
/// interfaces that were used.
#[derive(Debug)]
pub(crate) struct PerInterface<T>([OnceLock<T>; Interface::ALL.len()]);

impl<T> Default for PerInterface<T> {
    fn default() -> Self {
        Self([const { OnceLock::new() }; Interface::ALL.len()])
    }
}

impl<T> PerInterface<T> {
    /// Returns the value of this interface, created on first use.
    pub(crate) fn get_or_init(&self, interface: Interface, make: impl FnOnce() -> T) -> Option<&T> {
        // The discriminants follow the order of `ALL`.
        Some(self.0.get(interface as usize)?.get_or_init(make))
    }

    /// Iterates over the values that exist.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.0.iter().filter_map(OnceLock::get)
    }
}
