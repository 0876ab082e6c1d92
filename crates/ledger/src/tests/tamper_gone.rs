//! Deliberate changes to a record with removed segments, and the findings of `verify`.

use super::fixture::{Random, driven, seeds, small};
use super::retain::look;
use super::sim_disk::SimDisk;
use super::tamper::{Files, KINDS, edit, fit_progress};
use crate::hash_chain::LedgerCheckpoint;
use crate::retention::RetentionPolicy;
use crate::verification::VerificationReport;

/// Changes to tombstones, in addition to [`KINDS`] for segments.
const TOMBS: [&str; 5] = [
    "flip a bit of a tombstone",
    "delete a tombstone",
    "swap two tombstones",
    "cut a tombstone",
    "sign a tombstone that says something else, with a key of one's own",
];

/// Changes that are undetected without an external checkpoint, in the words of
/// [`VerificationReport::LIMITS`].
const UNSEEN: [(&str, &str); 3] = [
    ("cut the end off", "an end that was cut off"),
    ("put an older copy back", "a restored older copy"),
    ("write all of it anew", "a completely rewritten record"),
];

/// A record with removed segments, an older copy of it, a rewritten one, and all checkpoints.
struct Gone {
    good: Files,
    older: Files,
    anew: Files,
    kept: Vec<LedgerCheckpoint>,
}

fn files(disk: &SimDisk) -> Files {
    disk.files().into_iter().filter(|(name, _)| name.strip_suffix(".tmp").is_none()).collect()
}

fn made(first: u64) -> (Files, Files, Vec<LedgerCheckpoint>) {
    let (disk, mut driven) = driven(small());
    let mut kept = driven.work(first, 90);
    driven.retain_all(RetentionPolicy { max_age: None, max_bytes: Some(60 << 10) });
    let older = files(&disk);
    kept.extend(driven.work(first + 1_000, 60));
    driven.retain_all(RetentionPolicy { max_age: None, max_bytes: Some(60 << 10) });
    driven.work(first + 2_000, 30);
    kept.extend(driven.inner.lock_checkpoint().clone());
    driven.close();
    (files(&disk), older, kept)
}

fn gone() -> Gone {
    let ((good, older, kept), (anew, ..)) = (made(0), made(500));
    Gone { good, older, anew, kept }
}

fn only(files: &Files, end: &str) -> Files {
    files
        .iter()
        .filter(|(name, _)| name.ends_with(end))
        .map(|(n, b)| (n.clone(), b.clone()))
        .collect()
}

fn bury(how: usize, files: &mut Files, random: &mut Random) {
    let tombs: Vec<_> = only(files, ".tomb").into_iter().collect();
    let (name, mut bytes) = tombs[random.index(tombs.len())].clone();
    match how {
        0 => {
            let at = random.index(bytes.len());
            bytes[at] ^= 1 << random.below(7);
        }
        1 => {
            files.remove(&name);
            return;
        }
        2 => {
            let (other, theirs) = tombs[random.index(tombs.len())].clone();
            files.insert(other, bytes);
            bytes = theirs;
        }
        3 => bytes.truncate(random.index(bytes.len())),
        _ => {
            let text = String::from_utf8(bytes).unwrap();
            let (text, _) = text.rsplit_once("\n\n").unwrap();
            let text = text.replacen("why bytes", "why age", 1) + "\n";
            let origin = text.lines().nth(1).unwrap().strip_prefix("origin ").unwrap();
            bytes = crate::signed_checkpoint::CheckpointSigningKey::generate()
                .unwrap()
                .sign_note(origin, &text)
                .into_bytes();
        }
    }
    files.insert(name, bytes);
}

fn tamper(kind: usize, gone: &Gone, random: &mut Random) -> Files {
    let mut files = gone.good.clone();
    if kind < KINDS.len() {
        edit(kind, &mut files, random);
        return files;
    }
    match kind - KINDS.len() {
        how if how < TOMBS.len() => bury(how, &mut files, random),
        how if how == TOMBS.len() => {
            // Some of the last segments, and a part of the one before them.
            for _ in 0..2 + random.below(3) {
                let last =
                    files.keys().rfind(|name| name.strip_suffix(".seg").is_some()).unwrap().clone();
                files.remove(&last);
            }
            let (_, last) =
                files.iter_mut().rfind(|(name, _)| name.strip_suffix(".seg").is_some()).unwrap();
            let half = last.len() / 2;
            last.truncate(half + random.index(half));
            fit_progress(&mut files);
        }
        how if how == TOMBS.len() + 1 => files.clone_from(&gone.older),
        _ => files.clone_from(&gone.anew),
    }
    files
}

/// With external checkpoints every change of segments and tombstones is found. Without them,
/// undetected changes are exactly those that the report excludes.
#[test]
fn where_a_part_is_gone_every_edit_is_found_with_a_kept_checkpoint() {
    let gone = gone();
    let (tombs, segments) = (only(&gone.good, ".tomb").len(), only(&gone.good, ".seg").len());
    assert!(tombs > 10 && segments > 10, "{tombs} {segments}");
    let report = look(&SimDisk::holding(&gone.good), &gone.kept);
    assert!(report.is_sound(), "{:?}", report.findings);
    let last = std::slice::from_ref(gone.kept.last().unwrap());
    let kinds = KINDS.len() + TOMBS.len() + UNSEEN.len();
    let (mut tried, mut alone, mut missed) = (0, 0, [0; UNSEEN.len()]);
    for seed in 0..seeds() / 5 {
        let mut random = Random::new(seed ^ 0x90_5eed);
        let kind = usize::try_from(seed).unwrap() % kinds;
        let files = tamper(kind, &gone, &mut random);
        if files == gone.good {
            continue;
        }
        tried += 1;
        let disk = SimDisk::holding(&files);
        assert!(!look(&disk, last).is_sound(), "seed {seed}: kind {kind} is not found");
        if look(&disk, &[]).is_sound() {
            let unseen = kind.checked_sub(KINDS.len() + TOMBS.len());
            let unseen = unseen.unwrap_or_else(|| panic!("seed {seed}: kind {kind} is not found"));
            assert!(VerificationReport::LIMITS.contains(UNSEEN[unseen].1));
            missed[unseen] += 1;
        } else {
            alone += 1;
        }
    }
    println!(
        "{tried} edits beside {tombs} tombstones: all found with a kept checkpoint, {alone} without one"
    );
    for ((name, _), missed) in UNSEEN.iter().zip(missed) {
        println!("{missed:4} not found without one: {name}");
    }
    assert!(missed.iter().sum::<u32>() > 0, "the report claims not to see what it sees");
    assert!(tried >= 180, "{tried}");
}
