//! The check of the file descriptor limit against clients and sources.

use host::descriptors::Shares;

use super::Finding;

/// Number of client connections below which a few idle ones are noticeable.
const FEW_CLIENTS: usize = 1_000;
const FIX: &str = "raise the hard limit of descriptors (`ulimit -Hn`, `LimitNOFILE=` of a systemd unit, `--ulimit \
                   nofile` of a container)";

/// Checks whether `shares` suffices for the number of configured `sources`.
pub(super) fn finding(shares: Shares, sources: usize) -> Finding {
    let detail = format!(
        "{} in all: {} connections of clients, and {} MCP servers over HTTP or {} started programs",
        shares.limit,
        shares.clients,
        shares.http_sources(),
        shares.programs()
    );
    if shares.http_sources() < sources {
        let detail = format!("{detail}; {sources} sources are configured");
        return Finding::doubtful("file descriptors", detail, FIX);
    }
    if shares.clients < FEW_CLIENTS {
        return Finding::doubtful("file descriptors", detail, FIX);
    }
    Finding::good("file descriptors", detail)
}

#[cfg(test)]
mod tests {
    use super::super::State;
    use super::*;

    #[test]
    fn what_fits_is_reported_and_too_little_has_a_fix() {
        let plenty = finding(Shares::of(1 << 20), 500);
        assert_eq!((plenty.state, plenty.fix), (State::Good, None));
        let few = finding(Shares::of(1_024), 10);
        let told = "1024 in all: 480 connections of clients, and 240 MCP servers over HTTP or 96 started programs";
        assert_eq!((few.state, few.detail.as_str()), (State::Doubtful, told));
        let crowded = finding(Shares::of(4_096), 1_500);
        assert_eq!(crowded.state, State::Doubtful);
        assert!(crowded.detail.ends_with("; 1500 sources are configured"), "{}", crowded.detail);
    }
}
