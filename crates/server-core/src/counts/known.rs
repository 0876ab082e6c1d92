//! What is counted with each call, found without its labels being hashed.

use std::sync::OnceLock;

use tool::Interface;

/// One of something for each interface; made when it is first asked for, so that a page of metrics shows
/// what there was.
#[derive(Debug)]
pub(crate) struct ByDoor<T>([OnceLock<T>; Interface::ALL.len()]);

impl<T> Default for ByDoor<T> {
    fn default() -> Self {
        Self([const { OnceLock::new() }; Interface::ALL.len()])
    }
}

impl<T> ByDoor<T> {
    /// That of this interface.
    pub(crate) fn of(&self, door: Interface, make: impl FnOnce() -> T) -> Option<&T> {
        // Interfaces stand in `ALL` as they are declared.
        Some(self.0.get(door as usize)?.get_or_init(make))
    }
}
