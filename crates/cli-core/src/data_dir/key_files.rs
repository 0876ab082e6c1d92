//! The key files of an installation, and their states.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use identity::KeyRing;
use tool::WallTime;

use super::DataDir;

/// The advice for recovering a valid key.
pub const RECOVER: &str = "stop the server and run `toolkeep key recover` on this machine";

/// The two initial keys of an installation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FirstKey {
    /// The owner's key, with every right.
    Owner,
    /// The key of the owner's agent.
    Agent,
}

impl FirstKey {
    /// Both initial keys, in order.
    pub const ALL: [Self; 2] = [Self::Owner, Self::Agent];

    /// The file name of the key.
    pub(super) const fn file(self) -> &'static str {
        match self {
            Self::Owner => "owner.key",
            Self::Agent => "agent.key",
        }
    }
}

/// The state of a key file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyState {
    /// The file contains a valid key.
    Valid,
    /// The file does not exist or cannot be read.
    Missing,
    /// The file contains a key that is unknown, expired or revoked.
    Invalid,
}

/// The changes made to the keys of an installation.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KeyChanges {
    /// The keys that were created.
    pub made: Vec<FirstKey>,
    /// Ids of owner keys that were revoked because another one replaced them.
    pub revoked: Vec<String>,
    /// Files that were renamed because their key is not valid.
    pub set_aside: Vec<PathBuf>,
}

impl DataDir {
    /// Checks whether the file of a key contains a valid one.
    pub fn key_state(&self, key_ring: &KeyRing, key: FirstKey, now: WallTime) -> KeyState {
        match self.read_key(key) {
            Err(_) => KeyState::Missing,
            Ok(presented) if key_ring.verify_key(Some(presented.expose()), now).is_ok() => {
                KeyState::Valid
            }
            Ok(_) => KeyState::Invalid,
        }
    }

    /// Key files that other users can read, with their modes.
    pub fn open_key_files(&self) -> Vec<(PathBuf, u32)> {
        let files = FirstKey::ALL.map(|key| self.key_file(key)).into_iter();
        let mode = |path: PathBuf| {
            let mode = fs::metadata(&path).ok()?.permissions().mode() & 0o777;
            let others = mode & 0o077;
            (others != 0).then_some((path, mode))
        };
        files.chain([self.record_key_file()]).filter_map(mode).collect()
    }
}
