//! JSON pointers (RFC 6901): locations of values in a document.

/// Appends a segment to `pointer`, with `~` and `/` escaped.
pub fn push_segment(pointer: &mut String, segment: &str) {
    pointer.push('/');
    for character in segment.chars() {
        match character {
            '~' => pointer.push_str("~0"),
            '/' => pointer.push_str("~1"),
            character => pointer.push(character),
        }
    }
}

/// Returns the pointer of the member or element `segment` of the value at `pointer`.
pub fn child_pointer(pointer: &str, segment: &str) -> String {
    let mut child = pointer.to_owned();
    push_segment(&mut child, segment);
    child
}

/// Returns the name that an escaped segment stands for.
pub fn unescape_segment(segment: &str) -> String {
    segment.replace("~1", "/").replace("~0", "~")
}

#[cfg(test)]
mod tests {
    use super::{child_pointer, unescape_segment};

    #[test]
    fn segments_are_escaped_and_restored() {
        for (name, pointer) in
            [("", "/a/"), ("b", "/a/b"), ("x/y", "/a/x~1y"), ("~1", "/a/~01"), ("~/é", "/a/~0~1é")]
        {
            assert_eq!(child_pointer("/a", name), pointer);
            assert_eq!(unescape_segment(pointer.strip_prefix("/a/").unwrap()), name);
        }
    }
}
