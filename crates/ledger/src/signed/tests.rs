use tool::Wall;

use super::{BadNote, RecordKey, VerifyKey, notes, unproved};
use crate::chain::{Chain, Checkpoint};

fn checkpoint(frames: u64) -> Checkpoint {
    let mut chain = Chain::new("main");
    (1..=frames).for_each(|seq| chain.push(seq, &seq.to_le_bytes()));
    chain.checkpoint("main", Wall(1_700_000_000_000))
}

fn key() -> RecordKey {
    RecordKey::read(&"07".repeat(32)).unwrap()
}

/// What others have made: the key of Go's checksum database, and the example of Go's own package.
#[test]
fn keys_and_notes_of_others_read() {
    let go: VerifyKey =
        "sum.golang.org+033de0ae+Ac4zctda0e5eza+HJyk9SxEdh+s3Ux18htTTAD8OuAn8".parse().unwrap();
    assert_eq!(go.name(), "sum.golang.org");
    let other = "sum.golang.org+033de0af+Ac4zctda0e5eza+HJyk9SxEdh+s3Ux18htTTAD8OuAn8";
    other.parse::<VerifyKey>().unwrap_err();
    let peter: VerifyKey =
        "PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW".parse().unwrap();
    let text = "If you think cryptography is the answer to your problem,\n\
        then you don't know what your problem is.\n";
    let line = "\u{2014} PeterNeumann x08go/ZJkuBS9UG/SffcvIAQxVBtiFupLLr8pAcElZInNIuGUgYN1FFYC2\
        pZSNXgKvqfqdngotpRZb6KE6RyyBwJnAM=\n";
    assert_eq!(peter.opened(&format!("{text}\n{line}")), Ok(text));
}

#[test]
fn a_checkpoint_reads_back_by_its_key_alone() {
    let (key, checkpoint) = (key(), checkpoint(11));
    let note = key.note(&checkpoint);
    let public: VerifyKey = key.of_writer("main").to_string().parse().unwrap();
    let noted = public.checkpoint(&note).unwrap();
    assert_eq!(noted.checkpoint, Checkpoint { peaks: Vec::new(), ..checkpoint });
    assert_eq!(unproved(&note).unwrap(), noted);
    let other = RecordKey::fresh().unwrap();
    assert!(matches!(other.of_writer("main").checkpoint(&note), Err(BadNote::Unsigned(_))));
    assert!(matches!(key.of_writer("other").checkpoint(&note), Err(BadNote::Unsigned(_))));
    // Another's note with our key's line put under it.
    let forged = note.replacen("11\n", "12\n", 1);
    assert!(matches!(public.checkpoint(&forged), Err(BadNote::Signature(_))));
}

#[test]
fn every_changed_byte_is_seen() {
    let note = key().note(&checkpoint(5));
    let public = key().of_writer("main");
    public.checkpoint(&note).unwrap();
    let mut seen = 0;
    for at in 0..note.len() {
        let mut bytes = note.clone().into_bytes();
        bytes[at] ^= 1;
        let Ok(changed) = String::from_utf8(bytes) else { continue };
        assert!(public.checkpoint(&changed).is_err(), "byte {at}: {changed}");
        seen += 1;
    }
    assert!(seen > 200, "{seen}");
    for end in 0..note.len() {
        if let Some(cut) = note.get(..end) {
            assert!(public.checkpoint(cut).is_err(), "cut at {end}");
        }
    }
}

#[test]
fn signatures_of_witnesses_stand_beside_ours() {
    let note = key().note(&checkpoint(5));
    let witness = format!("{note}\u{2014} witness.example AAAAAAAAAAAAAAAAAAAAAA==\n");
    key().of_writer("main").checkpoint(&witness).unwrap();
    let before = note.replace("\n\n", "\n\n\u{2014} witness.example AAAAAAAAAAAAAAAAAAAAAA==\n");
    key().of_writer("main").checkpoint(&before).unwrap();
}

#[test]
fn notes_of_a_file_come_one_by_one() {
    let all: String = (1..5).map(|n| key().note(&checkpoint(n)) + "\n").collect();
    let read: Vec<_> = notes(&all).map(|n| unproved(n).unwrap().checkpoint.count).collect();
    assert_eq!(read, [1, 2, 3, 4]);
    // A line that was being written when the power went.
    let cut: Vec<_> = notes(all.get(..all.len() - 40).unwrap()).collect();
    assert_eq!(cut.len(), 4);
    assert!(key().of_writer("main").checkpoint(cut[3]).is_err());
}

#[test]
fn the_keys_file_reads_back_and_nothing_else_does() {
    let fresh = RecordKey::fresh().unwrap();
    let again = RecordKey::read(&format!("{}\n", fresh.text().open())).unwrap();
    assert_eq!(again.installation(), fresh.installation());
    for bad in ["", "07", &"zz".repeat(32), &"é".repeat(32)] {
        assert!(RecordKey::read(bad).is_err(), "{bad}");
    }
    assert!(!format!("{fresh:?}").contains(fresh.text().open()));
}
