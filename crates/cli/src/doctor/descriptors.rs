//! Check of the file descriptor limit against the numbers of clients and sources.

use host::descriptors::DescriptorShares;

use super::CheckFinding;

/// Number of client connections below which a few idle ones are noticeable.
const FEW_CLIENTS: usize = 1_000;
const LIMIT_HELP: &str = "raise the hard limit of file descriptors (`ulimit -Hn`, `LimitNOFILE=` of a \
                   systemd unit, `--ulimit nofile` of a container)";

/// Checks whether `shares` suffices for the number of configured `sources`.
pub(super) fn descriptor_finding(shares: DescriptorShares, sources: usize) -> CheckFinding {
    let detail = format!(
        "{} in all: {} client connections, and {} MCP servers over HTTP or {} started programs",
        shares.limit,
        shares.clients,
        shares.http_sources(),
        shares.programs()
    );
    if shares.http_sources() < sources {
        let detail = format!("{detail}; {sources} sources are configured");
        return CheckFinding::warning("file descriptors", detail, LIMIT_HELP);
    }
    if shares.clients < FEW_CLIENTS {
        return CheckFinding::warning("file descriptors", detail, LIMIT_HELP);
    }
    CheckFinding::ok("file descriptors", detail)
}

#[cfg(test)]
mod tests {
    use super::super::FindingLevel;
    use super::*;

    #[test]
    fn what_fits_is_reported_and_too_little_has_a_fix() {
        let plenty = descriptor_finding(DescriptorShares::from_limit(1 << 20), 500);
        assert_eq!((plenty.level, plenty.help), (FindingLevel::Ok, None));
        let few = descriptor_finding(DescriptorShares::from_limit(1_024), 10);
        let told = "1024 in all: 480 client connections, and 240 MCP servers over HTTP or 96 started programs";
        assert_eq!((few.level, few.detail.as_str()), (FindingLevel::Warning, told));
        let crowded = descriptor_finding(DescriptorShares::from_limit(4_096), 1_500);
        assert_eq!(crowded.level, FindingLevel::Warning);
        assert!(crowded.detail.ends_with("; 1500 sources are configured"), "{}", crowded.detail);
    }
}
