//! Tests of the sandbox on real processes.

#[cfg(test)]
#[expect(
    clippy::disallowed_methods,
    reason = "each runs itself again, and a program without the launcher"
)]
mod descriptors;
#[cfg(test)]
#[expect(
    clippy::disallowed_methods,
    reason = "controls start programs without a sandbox, and tests time what ends"
)]
mod isolation;
#[cfg(test)]
mod marks;
#[cfg(test)]
mod process;
