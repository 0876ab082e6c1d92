//! docs/guide/embed.md: its Rust is the code of `program`, which is compiled and run here.

mod program;

const GUIDE: &str = include_str!("../../../../docs/guide/embed.md");
const PROGRAM: &str = include_str!("embed/program.rs");

/// The lines of a text without their indentation, empty ones left out.
fn lines(text: &str) -> Vec<&str> {
    text.lines().map(str::trim).filter(|line| !line.is_empty()).collect()
}

/// The Rust blocks of a page.
fn blocks(page: &str) -> Vec<Vec<&str>> {
    let block = |text| lines(str::split(text, "```").next().unwrap_or_default());
    page.split("```rust\n").skip(1).map(block).collect()
}

fn shows(page: &str) -> Result<usize, String> {
    let program = lines(PROGRAM);
    let blocks = blocks(page);
    for block in &blocks {
        if !program.windows(block.len()).any(|window| window == block) {
            return Err(format!("the program has no such lines:\n{}", block.join("\n")));
        }
    }
    Ok(blocks.len())
}

#[test]
fn the_guide_shows_the_program_that_is_run_here() {
    assert_eq!(shows(GUIDE), Ok(5));
    // The control: another line is found.
    let changed = GUIDE.replacen("registry.register_tool(", "registry.register_other(", 1);
    assert!(shows(&changed).is_err());
}

#[tokio::test]
async fn the_program_of_the_guide_answers_a_model_in_every_format() {
    let folder = tempfile::tempdir().unwrap();
    let told = program::run().unwrap();
    assert_eq!(told.len(), formats::ProviderFormat::ALL.len());
    for (format, text) in &told {
        assert!(text.contains("look_up") || text.contains("look.up"), "{format}: {text}");
        assert!(!text.contains("wipe"), "{format}: what was filtered out is not shown: {text}");
    }
    let answer = program::answered(folder.path()).await.unwrap();
    let expected = r#"[{"role":"tool","tool_call_id":"call_1","content":"{\"word\":\"shelf\",\"meaning\":\"a board\"}"}]"#;
    assert_eq!(answer, expected);
}
