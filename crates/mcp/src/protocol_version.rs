//! Protocol versions of MCP and their two eras.

use std::fmt;

/// A protocol version that Toolkeep supports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ProtocolVersion {
    /// Protocol version of 2024-11-05.
    V2024_11_05,
    /// Protocol version of 2025-03-26.
    V2025_03_26,
    /// Protocol version of 2025-06-18.
    V2025_06_18,
    /// Protocol version of 2025-11-25.
    V2025_11_25,
    /// Protocol version of 2026-07-28.
    V2026_07_28,
}

/// The two message flows of MCP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ProtocolEra {
    /// `initialize`, sessions, requests from the server to the client: up to 2025-11-25.
    Handshake,
    /// Self-contained requests, `server/discover`, input requests in results: since 2026-07-28.
    Stateless,
}

impl ProtocolVersion {
    /// All versions, oldest first.
    pub const ALL: [Self; 5] = [
        Self::V2024_11_05,
        Self::V2025_03_26,
        Self::V2025_06_18,
        Self::V2025_11_25,
        Self::V2026_07_28,
    ];
    /// Newest version that starts with a handshake.
    pub const LAST_HANDSHAKE: Self = Self::V2025_11_25;
    /// Newest version that Toolkeep supports.
    pub const LATEST: Self = Self::V2026_07_28;

    /// Returns the version as it appears on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::V2024_11_05 => "2024-11-05",
            Self::V2025_03_26 => "2025-03-26",
            Self::V2025_06_18 => "2025-06-18",
            Self::V2025_11_25 => "2025-11-25",
            Self::V2026_07_28 => "2026-07-28",
        }
    }

    /// Parses a version, or returns `None` if it is not supported.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|revision| revision.as_str() == text)
    }

    /// Returns the era of the version.
    pub fn era(self) -> ProtocolEra {
        if self >= Self::V2026_07_28 { ProtocolEra::Stateless } else { ProtocolEra::Handshake }
    }
}

impl fmt::Display for ProtocolVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::{ProtocolEra, ProtocolVersion};

    #[test]
    fn read_what_is_written() {
        for revision in ProtocolVersion::ALL {
            assert_eq!(ProtocolVersion::parse(revision.as_str()), Some(revision));
        }
        assert_eq!(ProtocolVersion::parse("2026-07-29"), None);
        assert_eq!(ProtocolVersion::LAST_HANDSHAKE.era(), ProtocolEra::Handshake);
        assert_eq!(ProtocolVersion::LATEST.era(), ProtocolEra::Stateless);
    }
}
