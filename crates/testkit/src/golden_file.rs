//! Golden files: generated documents that a test compares with the code.

/// Compares a document with the generated text; with `TOOLKEEP_BLESS=1`, updates it.
pub fn assert_matches_file(document: &str, generated: &str) {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(document);
    if std::env::var_os("TOOLKEEP_BLESS").is_some_and(|word| word == "1") {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, generated).unwrap();
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        kept == generated,
        "`{document}` is stale; run `cargo xtask generate` and read the diff"
    );
}
