//! Generation of the one file that Debian's package lacks: the Go description of the API.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use super::{GO_PACKAGE, file_error, go_command, run_step};

/// Comment marker of a file that must be described.
const OPENAPI_MARKER: &str = "+k8s:openapi-gen=";
/// Folders with marked files.
const API_FOLDERS: &[&str] = &[
    "vendor/k8s.io/api",
    "vendor/k8s.io/apimachinery",
    "vendor/k8s.io/apiserver",
    "vendor/k8s.io/apiextensions-apiserver",
    "vendor/k8s.io/kube-aggregator",
    "vendor/k8s.io/metrics",
    "vendor/k8s.io/component-base",
    "vendor/k8s.io/kubelet",
    "vendor/k8s.io/kube-proxy",
    "vendor/k8s.io/kube-scheduler",
    "vendor/k8s.io/kube-controller-manager",
    "vendor/k8s.io/cloud-provider",
    "vendor/k8s.io/controller-manager",
    "vendor/k8s.io/client-go",
    "pkg/apis",
];
/// Folders in folders.
const MAX_DEPTH: usize = 12;

pub(super) fn generate_openapi(source: &Path, scratch: &Path) -> Result<(), String> {
    let program = scratch.join("openapi-gen");
    let mut compile = go_command(scratch, source);
    compile.args(["build", "-o"]).arg(&program);
    compile.arg("./vendor/k8s.io/kube-openapi/cmd/openapi-gen");
    run_step("compiling what describes its API", &mut compile)?;
    let mut marked = BTreeSet::new();
    for place in API_FOLDERS {
        collect_marked(source, place, MAX_DEPTH, &mut marked)?;
    }
    if marked.is_empty() {
        return Err("nothing in its source asks to be described".to_owned());
    }
    let packages: Vec<String> =
        marked.iter().map(|place| format!("{GO_PACKAGE}/{place}")).collect();
    // It queries Go for package paths, with the compiler's environment.
    let go_environment = go_command(scratch, source);
    let mut describe = Command::new(program);
    describe.envs(go_environment.get_envs().filter_map(|(name, value)| Some((name, value?))));
    describe.current_dir(source).args(["-i", &packages.join(",")]);
    describe.args(["-p", &format!("{GO_PACKAGE}/pkg/generated/openapi")]);
    describe.args([
        "-O",
        "zz_generated.openapi",
        "-h",
        "hack/boilerplate/boilerplate.generatego.txt",
    ]);
    describe.arg("-r").arg(scratch.join("violations"));
    describe.arg("--output-base").arg(scratch.join("gopath/src"));
    run_step("describing its API", &mut describe)?;
    Ok(())
}

/// Collects the folders below `place` with a marked file. Some are links within the package.
fn collect_marked(
    source: &Path,
    place: &str,
    depth: usize,
    marked: &mut BTreeSet<String>,
) -> Result<(), String> {
    let folder = source.join(place);
    let Ok(listed) = fs::read_dir(&folder) else { return Ok(()) };
    for entry in listed.flatten() {
        let Ok(name) = entry.file_name().into_string() else { continue };
        let path = entry.path();
        if path.is_dir() {
            if name != "testdata" && depth > 0 {
                collect_marked(source, &format!("{place}/{name}"), depth - 1, marked)?;
            }
        } else if path.extension().is_some_and(|it| it == "go")
            && !name.ends_with("_test.go")
            && !name.starts_with("zz_generated")
            && !marked.contains(place)
        {
            let text = fs::read(&path).map_err(|e| file_error(&path, &e))?;
            if has_marker(&String::from_utf8_lossy(&text)) {
                marked.insert(place.to_owned());
            }
        }
    }
    Ok(())
}

fn has_marker(text: &str) -> bool {
    let asks = |line: &str| {
        line.strip_prefix("//")
            .is_some_and(|rest| rest.strip_prefix(' ').unwrap_or(rest).starts_with(OPENAPI_MARKER))
    };
    text.lines().any(asks)
}

#[cfg(test)]
mod tests {
    use super::has_marker;

    #[test]
    fn a_file_asks_by_a_comment_at_the_start_of_a_line() {
        assert!(
            has_marker("package a\n// +k8s:openapi-gen=true\n")
                && has_marker("//+k8s:openapi-gen=true")
        );
        assert!(
            !has_marker("x // +k8s:openapi-gen=true")
                && !has_marker("// see +k8s:openapi-gen=true")
        );
    }
}
