//! Where a tool is in a catalog.

/// Position of a tool in a catalog: slot of its source, and index in that source catalog. Ordered
/// like the catalog.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ToolPosition {
    slot: u32,
    index: u32,
}

impl ToolPosition {
    pub(crate) fn from_indices(slot: usize, place: usize) -> Self {
        let number = |number| u32::try_from(number).unwrap_or(u32::MAX);
        Self { slot: number(slot), index: number(place) }
    }

    /// Returns the slot of its source, an index of [`Catalog::merged_sources`](crate::Catalog::merged_sources).
    pub fn slot_index(self) -> usize {
        usize::try_from(self.slot).unwrap_or_default()
    }

    /// Returns the index in its source catalog.
    pub fn tool_index(self) -> usize {
        usize::try_from(self.index).unwrap_or_default()
    }
}
