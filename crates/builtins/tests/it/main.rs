//! Tests of the built-in tools against untrusted data, and of the tools that run code.

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "the clock of these tests")]
mod calls;
#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "controls start programs, and tests time what ends")]
mod data;
#[cfg(test)]
mod git_status;
#[cfg(test)]
mod page;
#[cfg(test)]
mod python;
#[cfg(test)]
mod races;
#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "the authorities are programs")]
mod real;
#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests time what ends")]
mod shell;
#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "it times, and runs the authority")]
mod speed;
#[cfg(test)]
mod stage;
#[cfg(test)]
mod workers;
