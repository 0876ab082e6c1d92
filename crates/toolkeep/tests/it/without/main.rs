//! Runs a program whose kernel refuses user namespaces, Landlock, sockets of the network, or some of them: `it-without WHAT PROGRAM …`.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a part of a test that starts programs"
)]

use std::collections::BTreeMap;
use std::os::unix::process::CommandExt as _;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule,
};

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// `CLONE_NEWUSER` among the flags in the first argument.
fn makes_users() -> Vec<SeccompRule> {
    let bit = u64::try_from(libc::CLONE_NEWUSER).unwrap();
    let test = SeccompCmpOp::MaskedEq(bit);
    let flags = SeccompCondition::new(0, SeccompCmpArgLen::Dword, test, bit).unwrap();
    vec![SeccompRule::new(vec![flags]).unwrap()]
}

/// Sockets of IPv4 and IPv6, by the family in the first argument.
fn opens_network_sockets() -> Vec<SeccompRule> {
    let of_family = |family: i32| {
        let family = u64::try_from(family).unwrap();
        let is = SeccompCondition::new(0, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, family);
        SeccompRule::new(vec![is.unwrap()]).unwrap()
    };
    vec![of_family(libc::AF_INET), of_family(libc::AF_INET6)]
}

fn refuse(rules: Rules, errno: i32) {
    let action = SeccompAction::Errno(errno.cast_unsigned());
    let arch = std::env::consts::ARCH.try_into().unwrap();
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, action, arch).unwrap();
    seccompiler::apply_filter(&BpfProgram::try_from(filter).unwrap()).unwrap();
}

fn main() {
    let mut words = std::env::args_os().skip(1);
    let what = words.next().and_then(|word| word.into_string().ok()).unwrap();
    if what.contains("namespaces") {
        refuse(
            [libc::SYS_clone, libc::SYS_unshare].map(|n| (n, makes_users())).into(),
            libc::EPERM,
        );
        refuse([(libc::SYS_clone3, Vec::new())].into(), libc::ENOSYS);
    }
    if what.contains("landlock") {
        let errno = if what.contains("denied") { libc::EPERM } else { libc::ENOSYS };
        refuse([(libc::SYS_landlock_create_ruleset, Vec::new())].into(), errno);
    }
    if what.contains("network") {
        refuse([(libc::SYS_socket, opens_network_sockets())].into(), libc::EACCES);
    }
    let mut program = std::process::Command::new(words.next().unwrap());
    panic!("{}", program.args(words).exec());
}
