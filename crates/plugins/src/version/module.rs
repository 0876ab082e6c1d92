//! Which file of a folder a module's dotted name means.

use crate::folder::Content;

/// The file of `module`, relative to the folder. What stands before the folder in the name is left out:
/// spec 3 writes `src.tools.NAME` for what lies in the folder `NAME` itself. Never one outside.
pub(super) fn file(content: &Content, module: &str, plugin: &str) -> Option<String> {
    let parts: Vec<&str> = module.split('.').collect();
    for from in 0..parts.len() {
        let path = parts.get(from..).unwrap_or_default().join("/");
        for file in [format!("{path}.py"), format!("{path}/__init__.py")] {
            if content.file(&file).is_some() {
                return Some(file);
            }
        }
    }
    let own = parts.last() == Some(&plugin) && content.file("__init__.py").is_some();
    own.then(|| "__init__.py".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_module_is_a_file_of_the_folder_s12() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("sub")).unwrap();
        for file in ["__init__.py", "canvas.py", "sub/__init__.py", "sub/deep.py"] {
            std::fs::write(folder.path().join(file), "").unwrap();
        }
        let content = Content::read(folder.path()).unwrap();
        let file = |module: &str| file(&content, module, "canvas_tools");
        assert_eq!(file("canvas").unwrap(), "canvas.py");
        assert_eq!(file("src.tools.canvas_tools.canvas").unwrap(), "canvas.py");
        assert_eq!(file("src.tools.canvas_tools").unwrap(), "__init__.py");
        assert_eq!(file("sub.deep").unwrap(), "sub/deep.py");
        assert_eq!(file("sub").unwrap(), "sub/__init__.py");
        for none in ["os", "src.tools.other", "..canvas.x", ""] {
            assert_eq!(file(none), None, "{none}");
        }
    }
}
