//! Text form of a tombstone: one line per field, signed as `signed-note` by the checkpoint key.
//!
//! ```text
//! toolkeep tombstone 1                    no checkpoint begins so
//! origin toolkeep/0123456789abcdef/main   installation and writer; the key has the same name
//! segment 7
//! bytes 67108912
//! file CsUY…=                             SHA-256 of the file
//! root Xajj…=                             tree over its own frames
//! times 1700000000000 1700000900000 1701000000000   begun, its last frame at the latest, removed
//! why age
//! sealed 2500                             a signed checkpoint went so far then
//! before 1000 1000 h2fB…= PlRY…= …        frames, last number, head of the chain, subtrees
//! open 1999 01980000-…                    a call that had begun and not ended; its intent's number
//! more 0                                  so many of those are not named
//! at 1500 1500 h2fB…= PlRY…= …            as `before`, but subtrees since the line before
//! ```

use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use tool::{CallId, Digest, WallTime};
use uuid::Uuid;

use super::{ChainState, MAX_LISTED_CALLS, OpenCall, RemovalReason, Tombstone};
use crate::hash_chain::Sha256Hash;
use crate::signed_checkpoint::{CheckpointSigningKey, key_name};

const FIRST_LINE: &str = "toolkeep tombstone 1";

/// Formats the tombstone as a signed note.
pub(super) fn format_note(tombstone: &Tombstone, key: &CheckpointSigningKey) -> String {
    let origin = key_name(&key.installation_id(), &tombstone.writer);
    let mut text = format!(
        "{FIRST_LINE}\norigin {origin}\nsegment {}\nbytes {}\nfile {}\nroot {}\ntimes {} {} {}\nwhy {}\nsealed {}\n",
        tombstone.number,
        tombstone.bytes,
        BASE64.encode(tombstone.file_digest.0),
        BASE64.encode(tombstone.root.0),
        tombstone.started_at.0,
        tombstone.newest_before.0,
        tombstone.removed_at.0,
        match tombstone.reason {
            RemovalReason::Age => "age",
            RemovalReason::Size => "bytes",
        },
        tombstone.signed_through,
    );
    write_state(&mut text, "before", &tombstone.initial_state);
    for OpenCall { intent_seq, call_id } in &tombstone.open_calls {
        // Writing to a string does not fail.
        writeln!(text, "open {intent_seq} {call_id}").unwrap_or_default();
    }
    writeln!(text, "more {}", tombstone.more_open_calls).unwrap_or_default();
    for at in &tombstone.states {
        write_state(&mut text, "at", at);
    }
    key.sign_note(&origin, &text)
}

fn write_state(text: &mut String, word: &str, stood: &ChainState) {
    let ChainState {
        frame_count: count,
        last_seq: through,
        chain_head: head,
        subtree_roots: nodes,
    } = stood;
    write!(text, "{word} {count} {through} {}", BASE64.encode(head)).unwrap_or_default();
    for node in nodes {
        write!(text, " {}", BASE64.encode(node)).unwrap_or_default();
    }
    text.push('\n');
}

/// Parses a note without verifying it, and returns the name of the key that must have signed it.
pub(super) fn parse_note(note: &str) -> Result<(Tombstone, String), &'static str> {
    let (text, _) = note.rsplit_once("\n\n").ok_or("it has no empty line before the signatures")?;
    let mut lines = NoteLines(text.lines().peekable());
    if lines.0.next() != Some(FIRST_LINE) {
        return Err("it has no tombstone header");
    }
    let origin = lines.expect_line("origin")?.to_owned();
    let writer = origin.rsplit_once('/').map(|(_, writer)| writer.to_owned());
    let number = parse_number(lines.expect_line("segment")?)?;
    let bytes = self::parse_number(lines.expect_line("bytes")?)?;
    let file = Digest(parse_hash(lines.expect_line("file")?)?);
    let root = Digest(parse_hash(lines.expect_line("root")?)?);
    let mut times = lines.expect_line("times")?.split(' ').map(self::parse_number);
    let mut time = || times.next().unwrap_or(Err("a time is missing")).map(WallTime);
    let (begun, until, at) = (time()?, time()?, time()?);
    let why = match lines.expect_line("why")? {
        "age" => RemovalReason::Age,
        "bytes" => RemovalReason::Size,
        _ => return Err("it has no reason"),
    };
    let sealed = self::parse_number(lines.expect_line("sealed")?)?;
    let before = parse_state(lines.expect_line("before")?)?;
    let open = lines.open_calls()?;
    let more_open = self::parse_number(lines.expect_line("more")?)?;
    let mut all = Vec::new();
    while lines.0.peek().is_some() {
        all.push(parse_state(lines.expect_line("at")?)?);
    }
    if all.is_empty() {
        return Err("it has no end state of the segment");
    }
    let writer = writer.ok_or("its origin has no writer")?;
    let tomb = Tombstone {
        writer,
        number,
        bytes,
        file_digest: file,
        root,
        started_at: begun,
        newest_before: until,
        removed_at: at,
        reason: why,
        signed_through: sealed,
        initial_state: before,
        states: all,
        open_calls: open,
        more_open_calls: more_open,
    };
    Ok((tomb, origin))
}

struct NoteLines<'a>(std::iter::Peekable<std::str::Lines<'a>>);

impl<'a> NoteLines<'a> {
    fn expect_line(&mut self, word: &str) -> Result<&'a str, &'static str> {
        let line = self.0.next().and_then(|line| line.split_once(' '));
        line.filter(|(first, _)| *first == word).map(|(_, rest)| rest).ok_or("a line is missing")
    }

    fn open_calls(&mut self) -> Result<Vec<OpenCall>, &'static str> {
        let mut open = Vec::new();
        while self.0.peek().is_some_and(|line| line.starts_with("open ")) {
            let (seq, call) =
                self.expect_line("open")?.split_once(' ').ok_or("an open call has no ID")?;
            let call = Uuid::try_parse(call).map_err(|_| "the ID of an open call is invalid")?;
            open.push(OpenCall { intent_seq: parse_number(seq)?, call_id: CallId(call) });
            if open.len() > MAX_LISTED_CALLS {
                return Err("it lists too many open calls");
            }
        }
        Ok(open)
    }
}

fn parse_number<T: std::str::FromStr>(text: &str) -> Result<T, &'static str> {
    text.parse().map_err(|_| "it contains an invalid number")
}

fn parse_hash(text: &str) -> Result<Sha256Hash, &'static str> {
    let bytes = BASE64.decode(text).map_err(|_| "a hash in it is not valid base64")?;
    bytes.try_into().map_err(|_| "a hash in it has another length")
}

fn parse_state(rest: &str) -> Result<ChainState, &'static str> {
    let mut parts = rest.split(' ');
    let mut next = || parts.next().ok_or("a position in it is incomplete");
    let (count, through, head) =
        (parse_number(next()?)?, parse_number(next()?)?, parse_hash(next()?)?);
    // More subtrees than that no run has.
    let nodes = parts.take(130).map(parse_hash).collect::<Result<Vec<_>, _>>()?;
    Ok(ChainState { frame_count: count, last_seq: through, chain_head: head, subtree_roots: nodes })
}
