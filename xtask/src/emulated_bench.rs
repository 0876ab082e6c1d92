//! `cargo xtask bench emulated`: runs `bench` in a virtual machine whose clock counts instructions.
//!
//! The machine has a Debian kernel and shell, the two programs and their shared libraries.
//! Everything is in memory and rebuilt for each run.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::child_processes::{run_for_output, run_visible};
use crate::workspace::file_error;

const QEMU_PROGRAM: &str = "qemu-system-x86_64";
/// First version whose processors support SHA-256 instructions; without them a call takes twice as
/// many.
const MIN_QEMU_VERSION: (u32, u32) = (9, 0);
/// Debian packages of the kernel and the shell.
const KERNEL_PACKAGE: &str = "linux-image-cloud-amd64";
const SHELL_PACKAGE: &str = "busybox-static";
/// Init script of the machine, and the time limit of a run. Rounds are short, because there is no
/// noise.
const INIT_SCRIPT: &str = "#!/bin/busybox sh
/bin/busybox --install /bin
mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t devtmpfs dev /dev; mount -t tmpfs tmp /tmp
ip link set lo up
export HOME=/tmp TOOLKEEP_BUILT_BY='HOW'
bench emulated --rounds 3 --seconds 0.5 --toolkeep /bin/toolkeep
poweroff -f
";
const RUN_TIMEOUT: &str = "30m";

/// Runs the measurement with these two programs and returns the report. `build_note` describes the
/// build of the second.
///
/// # Errors
/// If the machine cannot be built or started, or reports nothing.
pub(crate) fn run_emulated_bench(
    bench_binary: &Path,
    (toolkeep, build_note): (&Path, &str),
    folder: &Path,
) -> Result<String, String> {
    check_qemu()?;
    drop(fs::remove_dir_all(folder));
    let image = folder.join("image");
    for name in ["bin", "proc", "sys", "dev", "tmp"] {
        create_dir(&image.join(name))?;
    }
    let kernel = unpack_kernel(folder)?;
    copy_file(&folder.join("packages/bin/busybox"), &image.join("bin/busybox"))?;
    for program in [bench_binary, toolkeep] {
        let name = program.file_name().unwrap_or_default();
        copy_file(program, &image.join("bin").join(name))?;
        for library in linked_libraries(program)? {
            copy_file(&library, &image.join(library.strip_prefix("/").unwrap_or(&library)))?;
        }
    }
    let init = image.join("init");
    fs::write(&init, INIT_SCRIPT.replace("HOW", build_note))
        .map_err(|error| file_error(&init, &error))?;
    let pack = "chmod 755 init && find . | bin/busybox cpio -o -H newc > ../image.cpio";
    run_step("packing its files", Command::new("sh").args(["-c", pack]).current_dir(&image))?;
    let output = run_visible(&mut emulator_command(&kernel, &folder.join("image.cpio")))?;
    let report = output.stdout_text.split_once("<!-- begin -->").and_then(|(_, rest)| {
        let (report, _) = rest.split_once("<!-- end -->")?;
        Some(report.replace('\r', "").trim_start().to_owned())
    });
    report.ok_or_else(|| "it ended without a report; what it said stands above".to_owned())
}

/// Two processors that run alternately; each instruction takes one nanosecond.
fn emulator_command(kernel: &Path, image: &Path) -> Command {
    let mut machine = Command::new("timeout");
    machine.args([
        RUN_TIMEOUT,
        QEMU_PROGRAM,
        "-M",
        "q35",
        "-cpu",
        "max,-la57",
        "-smp",
        "2",
        "-m",
        "3G",
    ]);
    machine.args(["-accel", "tcg", "-icount", "shift=0,align=off,sleep=off"]);
    machine.args(["-nographic", "-no-reboot", "-nodefaults", "-serial", "stdio"]);
    machine.args(["-append", "console=ttyS0 quiet panic=-1 mitigations=off"]);
    machine.arg("-kernel").arg(kernel).arg("-initrd").arg(image);
    machine
}

/// Checks that a recent QEMU is installed.
fn check_qemu() -> Result<(), String> {
    let version_text =
        run_for_output(Command::new(QEMU_PROGRAM).arg("--version")).unwrap_or_default();
    let version = version_text.split("version ").nth(1).and_then(|rest| {
        let mut parts = rest.split('.').map_while(|part| part.parse().ok());
        Some((parts.next()?, parts.next()?))
    });
    if version.is_some_and(|version| version >= MIN_QEMU_VERSION) {
        return Ok(());
    }
    let (major, _) = MIN_QEMU_VERSION;
    Err(format!(
        "`{QEMU_PROGRAM}` {major} or later is needed; on Debian 13: apt-get install qemu-system-x86, on Debian 12 \
         the same with -t bookworm-backports"
    ))
}

/// Downloads and unpacks Debian's packages, and returns the path of the kernel.
fn unpack_kernel(folder: &Path) -> Result<PathBuf, String> {
    let packages = folder.join("packages");
    create_dir(&packages)?;
    let depends_output = run_step(
        "asking for the kernel",
        Command::new("apt-cache").args(["depends", KERNEL_PACKAGE]),
    )?;
    let kernel_package =
        depends_output.lines().find_map(|line| line.trim().strip_prefix("Depends: "));
    let real =
        kernel_package.ok_or_else(|| format!("Debian's `{KERNEL_PACKAGE}` names no kernel"))?;
    let mut load = Command::new("apt-get");
    load.args(["download", "-o", "APT::Sandbox::User=root", real, SHELL_PACKAGE])
        .current_dir(&packages);
    run_step("loading a kernel and a shell, 30 MB", &mut load)?;
    let unpack = "for one in *.deb; do dpkg -x $one .; done; ls boot/vmlinuz-*";
    let kernel =
        run_step("unpacking", Command::new("sh").args(["-c", unpack]).current_dir(&packages))?;
    Ok(packages.join(kernel))
}

/// Returns the libraries and the loader of a program.
fn linked_libraries(program: &Path) -> Result<Vec<PathBuf>, String> {
    let library_list = run_step("asking what it is linked to", Command::new("ldd").arg(program))?;
    let paths = library_list.split_whitespace().filter(|word| word.starts_with('/'));
    Ok(paths.map(PathBuf::from).collect())
}

fn copy_file(from: &Path, to: &Path) -> Result<(), String> {
    to.parent().map_or(Ok(()), create_dir)?;
    fs::copy(from, to).map(drop).map_err(|error| file_error(from, &error))
}

fn create_dir(folder: &Path) -> Result<(), String> {
    fs::create_dir_all(folder).map_err(|error| file_error(folder, &error))
}

fn run_step(what: &str, command: &mut Command) -> Result<String, String> {
    run_for_output(command).map_err(|why| format!("{what}: {why}"))
}
