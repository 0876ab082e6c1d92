//! `cargo xtask bench emulated`: starts a machine whose clock counts instructions, and `bench` in it.
//!
//! A kernel and a shell of Debian's, our two programs with what they are linked to, and nothing else: all
//! of it in memory, made anew for each run.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::children::{shown, told};
use crate::workspace::at;

const QEMU: &str = "qemu-system-x86_64";
/// The first whose processors have instructions for SHA-256; without, a call would take twice as many.
const LEAST: (u32, u32) = (9, 0);
/// What Debian calls the kernel that is made for such machines, and the shell.
const KERNEL: &str = "linux-image-cloud-amd64";
const SHELL: &str = "busybox-static";
/// What the machine does, and how long it may take. Rounds are short: there is no noise to outlast.
const INIT: &str = "#!/bin/busybox sh
/bin/busybox --install /bin
mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t devtmpfs dev /dev; mount -t tmpfs tmp /tmp
ip link set lo up
export HOME=/tmp TOOLKEEP_BUILT_BY='HOW'
bench emulated --rounds 3 --seconds 0.5 --toolkeep /bin/toolkeep
poweroff -f
";
const MINUTES: &str = "30m";

/// Runs it with these two programs, of which the second was built so; the report.
///
/// # Errors
/// Where the machine cannot be made or started, or nothing is reported.
pub(crate) fn run(
    bench: &Path,
    (toolkeep, built_by): (&Path, &str),
    folder: &Path,
) -> Result<String, String> {
    fits()?;
    drop(fs::remove_dir_all(folder));
    let image = folder.join("image");
    for name in ["bin", "proc", "sys", "dev", "tmp"] {
        made(&image.join(name))?;
    }
    let kernel = debian(folder)?;
    copied(&folder.join("packages/bin/busybox"), &image.join("bin/busybox"))?;
    for program in [bench, toolkeep] {
        let name = program.file_name().unwrap_or_default();
        copied(program, &image.join("bin").join(name))?;
        for library in linked(program)? {
            copied(&library, &image.join(library.strip_prefix("/").unwrap_or(&library)))?;
        }
    }
    let init = image.join("init");
    fs::write(&init, INIT.replace("HOW", built_by)).map_err(|error| at(&init, &error))?;
    let pack = "chmod 755 init && find . | bin/busybox cpio -o -H newc > ../image.cpio";
    done("packing its files", Command::new("sh").args(["-c", pack]).current_dir(&image))?;
    let ended = shown(&mut machine(&kernel, &folder.join("image.cpio")))?;
    let report = ended.out.split_once("<!-- begin -->").and_then(|(_, rest)| {
        let (report, _) = rest.split_once("<!-- end -->")?;
        Some(report.replace('\r', "").trim_start().to_owned())
    });
    report.ok_or_else(|| "it ended without a report; what it said stands above".to_owned())
}

/// Two processors, of which one at a time goes on; each instruction of theirs is a nanosecond.
fn machine(kernel: &Path, image: &Path) -> Command {
    let mut machine = Command::new("timeout");
    machine.args([MINUTES, QEMU, "-M", "q35", "-cpu", "max,-la57", "-smp", "2", "-m", "3G"]);
    machine.args(["-accel", "tcg", "-icount", "shift=0,align=off,sleep=off"]);
    machine.args(["-nographic", "-no-reboot", "-nodefaults", "-serial", "stdio"]);
    machine.args(["-append", "console=ttyS0 quiet panic=-1 mitigations=off"]);
    machine.arg("-kernel").arg(kernel).arg("-initrd").arg(image);
    machine
}

/// That there is a QEMU, and which.
fn fits() -> Result<(), String> {
    let said = told(Command::new(QEMU).arg("--version")).unwrap_or_default();
    let version = said.split("version ").nth(1).and_then(|rest| {
        let mut parts = rest.split('.').map_while(|part| part.parse().ok());
        Some((parts.next()?, parts.next()?))
    });
    if version.is_some_and(|version| version >= LEAST) {
        return Ok(());
    }
    let (major, _) = LEAST;
    Err(format!(
        "`{QEMU}` {major} or later is needed; on Debian 13: apt-get install qemu-system-x86, on Debian 12 \
         the same with -t bookworm-backports"
    ))
}

/// Loads and unpacks Debian's packages; where the kernel is.
fn debian(folder: &Path) -> Result<PathBuf, String> {
    let packages = folder.join("packages");
    made(&packages)?;
    let asked = done("asking for the kernel", Command::new("apt-cache").args(["depends", KERNEL]))?;
    let real = asked.lines().find_map(|line| line.trim().strip_prefix("Depends: "));
    let real = real.ok_or_else(|| format!("Debian's `{KERNEL}` names no kernel"))?;
    let mut load = Command::new("apt-get");
    load.args(["download", "-o", "APT::Sandbox::User=root", real, SHELL]).current_dir(&packages);
    done("loading a kernel and a shell, 30 MB", &mut load)?;
    let unpack = "for one in *.deb; do dpkg -x $one .; done; ls boot/vmlinuz-*";
    let kernel = done("unpacking", Command::new("sh").args(["-c", unpack]).current_dir(&packages))?;
    Ok(packages.join(kernel))
}

/// The libraries of a program, and who loads them.
fn linked(program: &Path) -> Result<Vec<PathBuf>, String> {
    let told = done("asking what it is linked to", Command::new("ldd").arg(program))?;
    let paths = told.split_whitespace().filter(|word| word.starts_with('/'));
    Ok(paths.map(PathBuf::from).collect())
}

fn copied(from: &Path, to: &Path) -> Result<(), String> {
    to.parent().map_or(Ok(()), made)?;
    fs::copy(from, to).map(drop).map_err(|error| at(from, &error))
}

fn made(folder: &Path) -> Result<(), String> {
    fs::create_dir_all(folder).map_err(|error| at(folder, &error))
}

fn done(what: &str, command: &mut Command) -> Result<String, String> {
    told(command).map_err(|why| format!("{what}: {why}"))
}
