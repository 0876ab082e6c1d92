//! What is counted with each call, found without its labels being hashed.

use std::sync::OnceLock;

/// Doors that calls come by. One that is not here is counted too, a little slower.
const DOORS: [&str; 6] = ["mcp", "rest", "grpc", "cluster", "modules", "program"];

/// One of something for each door that is known; made when it is first asked for, so that a page of metrics
/// shows what there was.
#[derive(Debug)]
pub(crate) struct ByDoor<T>([OnceLock<T>; DOORS.len()]);

impl<T> Default for ByDoor<T> {
    fn default() -> Self {
        Self([const { OnceLock::new() }; DOORS.len()])
    }
}

impl<T> ByDoor<T> {
    /// That of this door; nothing for one that is not known.
    pub(crate) fn of(&self, door: &str, make: impl FnOnce() -> T) -> Option<&T> {
        let place = DOORS.iter().position(|known| *known == door)?;
        Some(self.0.get(place)?.get_or_init(make))
    }
}
