//! Parses the entry of a skill, as a server lists it, within the limits of SEP-2640.

use serde::Deserialize;
use serde_json::value::RawValue;
use tool::display_text::escape_and_truncate;
use tool::{Digest, Problem, Skill, SkillFile};

use super::definition_parser::validate_definition;

/// Maximum number of files of one skill, from SEP-2640.
const MAX_FILES: usize = 512;
/// Maximum size of all files of one skill, in bytes, from SEP-2640.
const MAX_TOTAL_BYTES: u64 = 16 << 20;

#[derive(Deserialize)]
struct SkillFields {
    uri: String,
    frontmatter: Frontmatter,
    resources: FilesField,
}

#[derive(Deserialize)]
struct Frontmatter {
    name: String,
    #[serde(rename = "description")]
    _description: String,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum FilesField {
    Listed(Vec<FileFields>),
    Word(String),
}

#[derive(Deserialize)]
struct FileFields {
    uri: String,
    digest: String,
    size: u64,
}

/// Parses one skill. `index` identifies it if it has no URI.
pub(super) fn parse_skill((index, raw): (usize, &RawValue)) -> Result<Skill, Problem> {
    let place = |uri: Option<&str>| match uri {
        Some(uri) => format!("skill `{}`", escape_and_truncate(uri, 80)),
        None => format!("skill {}", index + 1),
    };
    let received = validate_definition(raw).map_err(|why| Problem::new(place(None), why))?;
    let fields: SkillFields = received.decode().map_err(|error| {
        let uri = received.get("uri").and_then(|uri| Some(uri.string_value()?.into_owned()));
        Problem::new(place(uri.as_deref()), format!("is not offered: {error}"))
    })?;
    let refused = |why: String| {
        Problem::new(place(Some(&fields.uri)), format!("is not offered: {why}"))
            .with_help("correct the entry at its server (SEP-2640)")
    };
    let directory = fields.uri.strip_suffix("/SKILL.md");
    let directory =
        directory.ok_or_else(|| refused("its URI does not end with `/SKILL.md`".into()))?;
    if directory.rsplit('/').next() != Some(&*fields.frontmatter.name) {
        let name = escape_and_truncate(&fields.frontmatter.name, 80);
        return Err(refused(format!("its directory does not have its name, `{name}`")));
    }
    let files = match fields.resources {
        FilesField::Word(word) if word == "dynamic" => None,
        FilesField::Word(_) => {
            return Err(refused("`resources` is neither a list nor `dynamic`".into()));
        }
        FilesField::Listed(files) => {
            Some(check_files(&fields.uri, directory, files).map_err(refused)?)
        }
    };
    Ok(Skill { uri: fields.uri, files, raw_definition: received })
}

/// Checks that the files are those of the skill, and within the limits.
fn check_files(
    uri: &str,
    directory: &str,
    files: Vec<FileFields>,
) -> Result<Vec<SkillFile>, String> {
    if files.len() > MAX_FILES {
        return Err(format!("it has {} files; the maximum is {MAX_FILES}", files.len()));
    }
    let total = files.iter().fold(0_u64, |total, file| total.saturating_add(file.size));
    if total > MAX_TOTAL_BYTES {
        return Err(format!("its files have {total} bytes; the maximum is {MAX_TOTAL_BYTES}"));
    }
    if !files.iter().any(|file| file.uri == uri) {
        return Err("its files do not include `SKILL.md`".to_owned());
    }
    let check = |file: FileFields| {
        let shown = escape_and_truncate(&file.uri, 80);
        let rest = file.uri.strip_prefix(directory).and_then(|rest| rest.strip_prefix('/'));
        if rest.is_none_or(|rest| rest.split('/').any(|part| matches!(part, "" | "." | ".."))) {
            return Err(format!("the file `{shown}` is not in its directory"));
        }
        let digest: Digest =
            file.digest.parse().map_err(|_| format!("the digest of `{shown}` is not SHA-256"))?;
        Ok(SkillFile { uri: file.uri, digest, size: file.size })
    };
    files.into_iter().map(check).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::value::RawValue;
    use serde_json::{Value, json};

    use super::parse_skill;

    fn file(uri: &str) -> Value {
        json!({"uri": uri, "digest": format!("sha256:{}", "0".repeat(64)), "size": 1})
    }

    fn parse(uri: &str, name: &str, resources: &Value) -> Result<usize, String> {
        let entry = json!({"uri": uri, "frontmatter": {"name": name, "description": "d"}, "resources": resources});
        let raw = RawValue::from_string(entry.to_string()).unwrap();
        parse_skill((0, &raw))
            .map(|skill| skill.files.map_or(0, |files| files.len()))
            .map_err(|it| it.message)
    }

    #[test]
    fn an_entry_is_complete_and_within_its_directory() {
        let uri = "skill://a/b/SKILL.md";
        assert_eq!(parse(uri, "b", &json!([file(uri), file("skill://a/b/x/y.md")])), Ok(2));
        assert_eq!(parse(uri, "b", &json!("dynamic")), Ok(0));
        let mut large = file(uri);
        large["size"] = json!(17 << 20);
        let mut odd = file(uri);
        odd["digest"] = json!("md5:1");
        for (uri, name, resources, word) in [
            ("skill://a/b/README.md", "b", json!("dynamic"), "SKILL.md"),
            (uri, "c", json!("dynamic"), "name"),
            (uri, "b", json!("other"), "dynamic"),
            (uri, "b", json!([file("skill://a/b/x.md")]), "include"),
            (uri, "b", json!([file(uri), file("skill://a/other.md")]), "directory"),
            (uri, "b", json!([file(uri), file("skill://a/b/../../c")]), "directory"),
            (uri, "b", json!([large]), "maximum"),
            (uri, "b", json!([odd]), "SHA-256"),
            (uri, "b", json!(vec![file(uri); 513]), "maximum"),
            (uri, "b", json!(null), "resources"),
        ] {
            let why = parse(uri, name, &resources).unwrap_err();
            assert!(why.contains(word) || word == "resources", "{why}");
        }
    }
}
