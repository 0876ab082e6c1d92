//! Extraction of the uploaded file from a multipart form (RFC 7578). The client's file name is
//! ignored.

use std::time::Duration;

use axum::body::Bytes;

/// Timeout for receiving a package.
pub(super) const UPLOAD_TIMEOUT: Duration = Duration::from_mins(2);
/// Maximum number of parts of a form.
const MAX_PARTS: usize = 16;
/// Maximum bytes of a part's headers.
const MAX_PART_HEAD_BYTES: usize = 8 << 10;
/// Error texts of the package registry's contract.
const MISSING_FILE: &str = "Missing file part";
const EMPTY_FILENAME: &str = "No selected file";

/// Extracts the content of the part `file`.
pub(super) fn extract_file(kind: &str, body: &Bytes) -> Result<Bytes, &'static str> {
    let delimiter = format!("--{}", parse_boundary(kind).ok_or(MISSING_FILE)?);
    // The first delimiter is at the start, or after a preamble that is ignored.
    let inner = format!("\r\n{delimiter}");
    let mut at = if body.starts_with(delimiter.as_bytes()) {
        delimiter.len()
    } else {
        find_bytes(body, 0, inner.as_bytes()).ok_or(MISSING_FILE)? + inner.len()
    };
    for _ in 0..MAX_PARTS {
        // Two dashes follow the last delimiter.
        let rest = body.get(at..).unwrap_or_default();
        let Some(line) = find_bytes(rest, 0, b"\r\n").filter(|_| !rest.starts_with(b"--")) else {
            break;
        };
        let start = at + line;
        let Some(end) = find_bytes(body, start, inner.as_bytes()) else { break };
        let part = body.get(start..end).unwrap_or_default();
        let within = part.get(..MAX_PART_HEAD_BYTES.min(part.len())).unwrap_or_default();
        let head = find_bytes(within, 0, b"\r\n\r\n").ok_or(MISSING_FILE)?;
        let words = String::from_utf8_lossy(part.get(..head).unwrap_or_default());
        match parse_disposition(&words) {
            Some((name, Some(file))) if name == "file" => {
                return if file.is_empty() {
                    Err(EMPTY_FILENAME)
                } else {
                    Ok(body.slice(start + head + 4..end))
                };
            }
            _ => at = end + inner.len(),
        }
    }
    Err(MISSING_FILE)
}

fn parse_boundary(kind: &str) -> Option<String> {
    let (kind, rest) = kind.split_once(';')?;
    if !kind.trim().eq_ignore_ascii_case("multipart/form-data") {
        return None;
    }
    let boundary = parse_parameters(rest).into_iter().find(|(name, _)| name == "boundary")?.1;
    (1..=70).contains(&boundary.len()).then_some(boundary)
}

/// Parses a part's name, and its file name if it has one.
fn parse_disposition(head: &str) -> Option<(String, Option<String>)> {
    let of = |line: &str| {
        let (name, value) = line.split_once(':')?;
        let disposition = name.trim().eq_ignore_ascii_case("content-disposition");
        let (kind, rest) = value.split_once(';')?;
        (disposition && kind.trim().eq_ignore_ascii_case("form-data"))
            .then(|| parse_parameters(rest))
    };
    let all = head.split("\r\n").find_map(of)?;
    let get = |wanted: &str| all.iter().find(|(name, _)| name == wanted).map(|(_, it)| it.clone());
    Some((get("name")?, get("filename")))
}

/// Parses parameters of the form `name=value; name="value"`.
fn parse_parameters(text: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some((name, after)) = rest.split_once('=') {
        let name = name.trim_matches([' ', '\t', ';']).to_ascii_lowercase();
        let after = after.trim_start();
        let value = if let Some(quoted) = after.strip_prefix('"') {
            let mut value = String::new();
            let mut chars = quoted.char_indices();
            let mut end = quoted.len();
            while let Some((at, c)) = chars.next() {
                match c {
                    '"' => {
                        end = at + 1;
                        break;
                    }
                    '\\' => value.extend(chars.next().map(|(_, c)| c)),
                    c => value.push(c),
                }
            }
            rest = quoted.get(end..).unwrap_or_default();
            value
        } else {
            let (value, other) = after.split_once(';').unwrap_or((after, ""));
            rest = other;
            value.trim().to_owned()
        };
        found.push((name, value));
    }
    found
}

fn find_bytes(text: &[u8], from: usize, wanted: &[u8]) -> Option<usize> {
    let mut at = from;
    let first = *wanted.first()?;
    loop {
        let rest = text.get(at..)?;
        at += rest.iter().position(|byte| *byte == first)?;
        if text.get(at..)?.starts_with(wanted) {
            return Some(at);
        }
        at += 1;
    }
}

#[cfg(test)]
mod tests {
    use axum::body::Bytes;

    use super::{EMPTY_FILENAME, MISSING_FILE, extract_file};

    const KIND: &str = "multipart/form-data; boundary=\"x y\"";

    fn form(parts: &str) -> Bytes {
        Bytes::from(parts.replace('\n', "\r\n"))
    }

    #[test]
    fn the_file_is_found_among_other_parts_with_any_bytes_in_it() {
        let mut body = form(
            "before\n--x y\nContent-Disposition: form-data; name=\"other\"\n\nvalue\n--x y\n\
             content-disposition: form-data; name=\"file\"; filename=\"../../a \\\" b.zip\"\n\
             Content-Type: application/zip\n\n",
        )
        .to_vec();
        let content = b"PK\r\n--x\r\n--x \r\n\0\xff\r\n";
        body.extend_from_slice(content);
        body.extend_from_slice(b"\r\n--x y--\r\n");
        assert_eq!(extract_file(KIND, &body.into()).unwrap(), content[..]);
    }

    #[test]
    fn what_is_missing_has_the_contracts_words() {
        let part = |head: &str| form(&format!("--x y\n{head}\n\nPK\n--x y--\n"));
        let good = "Content-Disposition: form-data; name=file; filename=a.zip";
        assert_eq!(extract_file(KIND, &part(good)).unwrap(), "PK");
        for (kind, body, told) in [
            ("application/json", part(good), MISSING_FILE),
            ("multipart/form-data", part(good), MISSING_FILE),
            ("multipart/form-data; boundary=other", part(good), MISSING_FILE),
            (
                KIND,
                part("Content-Disposition: form-data; name=\"file\"; filename=\"\""),
                EMPTY_FILENAME,
            ),
            (KIND, part("Content-Disposition: form-data; name=\"file\""), MISSING_FILE),
            (
                KIND,
                part("Content-Disposition: form-data; name=\"data\"; filename=\"a\""),
                MISSING_FILE,
            ),
            (KIND, part("Content-Type: text/plain"), MISSING_FILE),
            (KIND, form("--x y--\n"), MISSING_FILE),
            (
                KIND,
                form("--x y\nContent-Disposition: form-data; name=file; filename=a\n\nPK"),
                MISSING_FILE,
            ),
            (KIND, Bytes::new(), MISSING_FILE),
        ] {
            assert_eq!(extract_file(kind, &body), Err(told), "{kind} {body:?}");
        }
    }

    #[test]
    fn a_form_of_many_parts_or_a_long_head_is_not_read_on() {
        let one = "--x y\nContent-Disposition: form-data; name=\"a\"\n\n1\n";
        let last = "--x y\nContent-Disposition: form-data; name=file; filename=a\n\nPK\n--x y--\n";
        assert!(extract_file(KIND, &form(&(one.repeat(3) + last))).is_ok());
        assert_eq!(extract_file(KIND, &form(&(one.repeat(100) + last))), Err(MISSING_FILE));
        let long = format!(
            "--x y\nX: {}\nContent-Disposition: form-data; name=file; filename=a\n\nPK\n--x y--\n",
            "x".repeat(9_000)
        );
        assert_eq!(extract_file(KIND, &form(&long)), Err(MISSING_FILE));
    }
}
