use tool::WallTime;

use super::{CheckpointSigningKey, NoteError, VerifierKey, parse_unverified, split_notes};
use crate::hash_chain::{HashChain, LedgerCheckpoint};

fn checkpoint(frames: u64) -> LedgerCheckpoint {
    let mut chain = HashChain::new("main");
    (1..=frames).for_each(|seq| chain.append_frame(seq, &seq.to_le_bytes()));
    chain.to_checkpoint("main", WallTime(1_700_000_000_000))
}

fn key() -> CheckpointSigningKey {
    CheckpointSigningKey::from_hex(&"07".repeat(32)).unwrap()
}

/// External test vectors: the key of Go's checksum database, and the example of Go's own package.
#[test]
fn keys_and_notes_of_others_read() {
    let go: VerifierKey =
        "sum.golang.org+033de0ae+Ac4zctda0e5eza+HJyk9SxEdh+s3Ux18htTTAD8OuAn8".parse().unwrap();
    assert_eq!(go.name(), "sum.golang.org");
    let other = "sum.golang.org+033de0af+Ac4zctda0e5eza+HJyk9SxEdh+s3Ux18htTTAD8OuAn8";
    other.parse::<VerifierKey>().unwrap_err();
    let peter: VerifierKey =
        "PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW".parse().unwrap();
    let text = "If you think cryptography is the answer to your problem,\n\
        then you don't know what your problem is.\n";
    let line = "\u{2014} PeterNeumann x08go/ZJkuBS9UG/SffcvIAQxVBtiFupLLr8pAcElZInNIuGUgYN1FFYC2\
        pZSNXgKvqfqdngotpRZb6KE6RyyBwJnAM=\n";
    assert_eq!(peter.verify_note(&format!("{text}\n{line}")), Ok(text));
}

#[test]
fn a_checkpoint_reads_back_by_its_key_alone() {
    let (key, checkpoint) = (key(), checkpoint(11));
    let note = key.sign_checkpoint(&checkpoint);
    let public: VerifierKey = key.verifier_key_of("main").to_string().parse().unwrap();
    let noted = public.verify_checkpoint(&note).unwrap();
    assert_eq!(noted.checkpoint, LedgerCheckpoint { peaks: Vec::new(), ..checkpoint });
    assert_eq!(parse_unverified(&note).unwrap(), noted);
    let other = CheckpointSigningKey::generate().unwrap();
    assert!(matches!(
        other.verifier_key_of("main").verify_checkpoint(&note),
        Err(NoteError::Unsigned(_))
    ));
    assert!(matches!(
        key.verifier_key_of("other").verify_checkpoint(&note),
        Err(NoteError::Unsigned(_))
    ));
    // Another's note with our key's line put under it.
    let forged = note.replacen("11\n", "12\n", 1);
    assert!(matches!(public.verify_checkpoint(&forged), Err(NoteError::InvalidSignature(_))));
}

#[test]
fn every_changed_byte_is_seen() {
    let note = key().sign_checkpoint(&checkpoint(5));
    let public = key().verifier_key_of("main");
    public.verify_checkpoint(&note).unwrap();
    let mut seen = 0;
    for at in 0..note.len() {
        let mut bytes = note.clone().into_bytes();
        bytes[at] ^= 1;
        let Ok(changed) = String::from_utf8(bytes) else { continue };
        assert!(public.verify_checkpoint(&changed).is_err(), "byte {at}: {changed}");
        seen += 1;
    }
    assert!(seen > 200, "{seen}");
    for end in 0..note.len() {
        if let Some(cut) = note.get(..end) {
            assert!(public.verify_checkpoint(cut).is_err(), "cut at {end}");
        }
    }
}

#[test]
fn signatures_of_witnesses_stand_beside_ours() {
    let note = key().sign_checkpoint(&checkpoint(5));
    let witness = format!("{note}\u{2014} witness.example AAAAAAAAAAAAAAAAAAAAAA==\n");
    key().verifier_key_of("main").verify_checkpoint(&witness).unwrap();
    let before = note.replace("\n\n", "\n\n\u{2014} witness.example AAAAAAAAAAAAAAAAAAAAAA==\n");
    key().verifier_key_of("main").verify_checkpoint(&before).unwrap();
}

#[test]
fn notes_of_a_file_come_one_by_one() {
    let all: String = (1..5).map(|n| key().sign_checkpoint(&checkpoint(n)) + "\n").collect();
    let read: Vec<_> =
        split_notes(&all).map(|n| parse_unverified(n).unwrap().checkpoint.frame_count).collect();
    assert_eq!(read, [1, 2, 3, 4]);
    // A line that was being written when the power went.
    let cut: Vec<_> = split_notes(all.get(..all.len() - 40).unwrap()).collect();
    assert_eq!(cut.len(), 4);
    assert!(key().verifier_key_of("main").verify_checkpoint(cut[3]).is_err());
}

#[test]
fn the_keys_file_reads_back_and_nothing_else_does() {
    let fresh = CheckpointSigningKey::generate().unwrap();
    let again = CheckpointSigningKey::from_hex(&format!("{}\n", fresh.to_hex().expose())).unwrap();
    assert_eq!(again.installation_id(), fresh.installation_id());
    for bad in ["", "07", &"zz".repeat(32), &"é".repeat(32)] {
        assert!(CheckpointSigningKey::from_hex(bad).is_err(), "{bad}");
    }
    assert!(!format!("{fresh:?}").contains(fresh.to_hex().expose()));
}
