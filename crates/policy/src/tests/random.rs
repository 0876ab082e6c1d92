//! Random policies and requests, small enough that they meet.

use super::model::{C, L, P, Q, R, T};

const NAMES: &[&str] =
    &["a", "b.a", "b.c", "read_file", "write_file", "web_fetch", "run_shell", "plot"];
const SOURCES: &[&str] = &["s", "r", "s2"];
pub(super) const PATTERNS: &[&str] = &[
    "*",
    "a",
    "b.*",
    "*.c",
    "*file",
    "w*e*",
    "read_file",
    "plot",
    "source:s",
    "source:s*",
    "source:r",
    "group:read",
    "group:write",
    "group:code",
    "group:data",
    "group:web",
    "group:math",
    "group:all",
    "group:g1",
    "group:g2",
    "nothing",
];
const CATEGORIES: &[&str] = &["web", "data", "code", "math", "file"];
const ROLES: &[&str] = &["dev", "ops", "odd"];

/// Small and fast, and the same for the same seed.
#[derive(Debug)]
pub(super) struct Dice(u64);

impl Dice {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    pub(super) fn below(&mut self, most: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 33).unwrap() % most
    }

    /// One time in so many.
    pub(super) fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    pub(super) fn one(&mut self, of: &[&str]) -> String {
        of[self.below(of.len())].to_owned()
    }

    pub(super) fn some(&mut self, of: &[&str], most: usize) -> Vec<String> {
        (0..self.below(most + 1)).map(|_| self.one(of)).collect()
    }

    fn small(&mut self, below: usize) -> u8 {
        u8::try_from(self.below(below)).unwrap()
    }

    pub(super) fn maybe<T>(
        &mut self,
        once_in: usize,
        make: impl FnOnce(&mut Self) -> T,
    ) -> Option<T> {
        self.once_in(once_in).then(|| make(self))
    }

    /// A list that a tool has a fair chance to be in.
    fn wide(&mut self) -> Vec<String> {
        let mut list = self.some(PATTERNS, 3);
        list.extend(self.maybe(2, |dice| dice.one(&["*", "group:all", "source:*"])));
        list
    }

    fn rule(&mut self) -> R {
        let when = self.maybe(2, |dice| match dice.below(4) {
            0 => C::Above(i64::from(dice.small(4))),
            1 => C::Is(dice.one(&["x", "y"])),
            2 => C::HasAndIs(dice.one(&["x", "y"])),
            _ => C::Role(dice.one(ROLES)),
        });
        let hours = self.maybe(3, |dice| {
            let from = dice.below(24);
            let to = (from + 1 + dice.below(22)) % 24;
            (from as u64, to as u64)
        });
        R {
            deny: self.once_in(2),
            tools: self.maybe(2, |dice| dice.some(PATTERNS, 2)),
            when,
            hours,
        }
    }

    fn layer(&mut self) -> L {
        let flat = |dice: &mut Self| {
            let mut categories = dice.some(CATEGORIES, 3);
            categories.extend(dice.some(CATEGORIES, 2));
            (dice.once_in(2), categories, dice.some(PATTERNS, 1), dice.some(PATTERNS, 1))
        };
        L {
            limit: self.maybe(6, |dice| dice.small(3)),
            categories: self.maybe(8, |dice| dice.some(CATEGORIES, 4)),
            allow: self.maybe(3, Self::wide),
            deny: if self.once_in(3) { self.some(PATTERNS, 1) } else { vec![] },
            read_only: self.once_in(12),
            no_web: self.once_in(12),
            flat: self.maybe(8, flat),
            rules: match self.below(40) {
                0 => (0..12).map(|_| self.rule()).collect(),
                1..=8 => vec![self.rule()],
                _ => vec![],
            },
        }
    }

    fn layers(&mut self, names: &[&str], once_in: usize) -> Vec<(String, L)> {
        let mut all = Vec::new();
        for name in names {
            if self.once_in(once_in) {
                all.push(((*name).to_owned(), self.layer()));
            }
        }
        all
    }

    pub(super) fn policy(&mut self) -> P {
        let plain: Vec<&str> =
            PATTERNS.iter().copied().filter(|p| !p.starts_with("group:g")).collect();
        let mut second = self.some(&plain, 2);
        second.extend(self.maybe(2, |_| "group:g1".to_owned()));
        let groups = vec![("g1".to_owned(), self.some(&plain, 2)), ("g2".to_owned(), second)];
        let roles = self.layers(ROLES, 2);
        let default_role =
            if self.once_in(3) { roles.first().map(|(name, _)| name.clone()) } else { None };
        let off = [
            "tools",
            "cascading_tool_policy",
            "side_effect_tracking",
            "structured_tool_output",
            "approval_gates",
            "resume_tokens",
            "scripts",
            "parallel_tools",
            "credential_redaction",
        ];
        P {
            groups,
            global: self.layer(),
            orgs: self.layers(&["default", "acme"], 2),
            roles,
            default_role,
            personas: self.layers(&["clown"], 2),
            tasks: self.layers(&["math", "chat"], 3),
            scopes: if self.once_in(3) {
                vec![(self.one(&["network", "filesystem", "shell"]), self.once_in(2))]
            } else {
                vec![]
            },
            paths: self.maybe(4, |_| vec!["/tmp/".to_owned()]),
            off: if self.once_in(6) { self.some(&off, 2) } else { vec![] },
        }
    }

    pub(super) fn tool(&mut self) -> T {
        let effects = ["read_only", "local_exec", "calls_llm", "modifies_files", "network_access"];
        T {
            org: if self.once_in(9) { "acme".to_owned() } else { "default".to_owned() },
            source: self.one(SOURCES),
            name: self.one(NAMES),
            level: if self.once_in(2) { 0 } else { self.small(4) },
            safety: self.small(3),
            categories: self.some(CATEGORIES, 2),
            scopes: self.some(&["network", "filesystem", "shell", "compute"], 2),
            effects: self.maybe(2, |dice| dice.some(&effects, 2)),
            destructive: self.once_in(6),
            chain: self.once_in(2),
        }
    }

    pub(super) fn request(&mut self) -> Q {
        // A persona without a list is one that the key's ring looks up: what it allows is not asked here.
        let persona = |dice: &mut Self| {
            let some = dice.some(SOURCES, 3);
            let all = || SOURCES.iter().map(|source| (*source).to_owned()).collect();
            (dice.one(&["clown", "judge"]), Some(if dice.once_in(2) { all() } else { some }))
        };
        let lent = |dice: &mut Self| {
            let allow = dice.maybe(2, Self::wide);
            (allow, dice.some(PATTERNS, 1), dice.once_in(6), dice.once_in(6))
        };
        Q {
            org: if self.once_in(6) { "acme".to_owned() } else { "default".to_owned() },
            level: if self.once_in(2) { 3 } else { self.small(4) },
            roles: if self.once_in(2) { self.some(ROLES, 2) } else { vec![] },
            persona: self.maybe(4, persona),
            delegations: if self.once_in(4) {
                (0..=self.below(2)).map(|_| lent(self)).collect()
            } else {
                vec![]
            },
            read_only: self.once_in(8),
            no_web: self.once_in(8),
            task: self.maybe(5, |dice| dice.one(&["math", "thinking", "chat", "other"])),
            chain: self.once_in(5),
            tool: self.tool(),
            n: self.maybe(2, |dice| i64::from(dice.small(5))),
            s: self.maybe(2, |dice| dice.one(&["x", "y", "z"])),
            path: self.maybe(2, |dice| dice.one(&["/tmp/a", "/etc/a", "/tmp/../a"])),
            hour: self.below(24) as u64,
        }
    }
}
