//! A tombstone as text: a line for each thing, signed as `signed-note` by the key of the checkpoints.
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
use tool::{CallId, Digest, Wall};
use uuid::Uuid;

use super::{MAX_OPEN, Stood, Tombstone, Why};
use crate::chain::Hash;
use crate::signed::{RecordKey, origin};

const FIRST: &str = "toolkeep tombstone 1";

/// The signed note.
pub(super) fn note(tomb: &Tombstone, key: &RecordKey) -> String {
    let origin = origin(&key.installation(), &tomb.writer);
    let mut text = format!(
        "{FIRST}\norigin {origin}\nsegment {}\nbytes {}\nfile {}\nroot {}\ntimes {} {} {}\nwhy {}\nsealed {}\n",
        tomb.number,
        tomb.bytes,
        BASE64.encode(tomb.file.0),
        BASE64.encode(tomb.root.0),
        tomb.begun.0,
        tomb.until.0,
        tomb.at.0,
        match tomb.why {
            Why::Age => "age",
            Why::Bytes => "bytes",
        },
        tomb.sealed,
    );
    stood(&mut text, "before", &tomb.before);
    for (seq, call) in &tomb.open {
        // Writing to a string does not fail.
        writeln!(text, "open {seq} {call}").unwrap_or_default();
    }
    writeln!(text, "more {}", tomb.more_open).unwrap_or_default();
    for at in &tomb.stood {
        stood(&mut text, "at", at);
    }
    key.signed(&origin, &text)
}

fn stood(text: &mut String, word: &str, stood: &Stood) {
    let Stood { count, through, head, nodes } = stood;
    write!(text, "{word} {count} {through} {}", BASE64.encode(head)).unwrap_or_default();
    for node in nodes {
        write!(text, " {}", BASE64.encode(node)).unwrap_or_default();
    }
    text.push('\n');
}

/// What a note says, whoever says it, and the name of the key that is to have signed it.
pub(super) fn parse(note: &str) -> Result<(Tombstone, String), &'static str> {
    let (text, _) = note.rsplit_once("\n\n").ok_or("no empty line stands before signatures")?;
    let mut lines = Lines(text.lines().peekable());
    if lines.0.next() != Some(FIRST) {
        return Err("it does not begin as one");
    }
    let origin = lines.of("origin")?.to_owned();
    let writer = origin.rsplit_once('/').map(|(_, writer)| writer.to_owned());
    let number = number(lines.of("segment")?)?;
    let bytes = self::number(lines.of("bytes")?)?;
    let file = Digest(hash(lines.of("file")?)?);
    let root = Digest(hash(lines.of("root")?)?);
    let mut times = lines.of("times")?.split(' ').map(self::number);
    let mut time = || times.next().unwrap_or(Err("a time is missing")).map(Wall);
    let (begun, until, at) = (time()?, time()?, time()?);
    let why = match lines.of("why")? {
        "age" => Why::Age,
        "bytes" => Why::Bytes,
        _ => return Err("it does not say why"),
    };
    let sealed = self::number(lines.of("sealed")?)?;
    let before = stands(lines.of("before")?)?;
    let open = lines.open()?;
    let more_open = self::number(lines.of("more")?)?;
    let mut all = Vec::new();
    while lines.0.peek().is_some() {
        all.push(stands(lines.of("at")?)?);
    }
    if all.is_empty() {
        return Err("it does not say how the segment ended");
    }
    let writer = writer.ok_or("its origin has no writer")?;
    let tomb = Tombstone {
        writer,
        number,
        bytes,
        file,
        root,
        begun,
        until,
        at,
        why,
        sealed,
        before,
        stood: all,
        open,
        more_open,
    };
    Ok((tomb, origin))
}

struct Lines<'a>(std::iter::Peekable<std::str::Lines<'a>>);

impl<'a> Lines<'a> {
    fn of(&mut self, word: &str) -> Result<&'a str, &'static str> {
        let line = self.0.next().and_then(|line| line.split_once(' '));
        line.filter(|(first, _)| *first == word).map(|(_, rest)| rest).ok_or("a line is missing")
    }

    fn open(&mut self) -> Result<Vec<(u64, CallId)>, &'static str> {
        let mut open = Vec::new();
        while self.0.peek().is_some_and(|line| line.starts_with("open ")) {
            let (seq, call) = self.of("open")?.split_once(' ').ok_or("an open call has no id")?;
            let call = Uuid::try_parse(call).map_err(|_| "the id of an open call is none")?;
            open.push((number(seq)?, CallId(call)));
            if open.len() > MAX_OPEN {
                return Err("it names too many open calls");
            }
        }
        Ok(open)
    }
}

fn number<T: std::str::FromStr>(text: &str) -> Result<T, &'static str> {
    text.parse().map_err(|_| "a number in it is none")
}

fn hash(text: &str) -> Result<Hash, &'static str> {
    let bytes = BASE64.decode(text).map_err(|_| "a hash in it is no base64")?;
    bytes.try_into().map_err(|_| "a hash in it has another length")
}

fn stands(rest: &str) -> Result<Stood, &'static str> {
    let mut parts = rest.split(' ');
    let mut next = || parts.next().ok_or("a place in it is not whole");
    let (count, through, head) = (number(next()?)?, number(next()?)?, hash(next()?)?);
    // More subtrees than that no run has.
    let nodes = parts.take(130).map(hash).collect::<Result<Vec<_>, _>>()?;
    Ok(Stood { count, through, head, nodes })
}
