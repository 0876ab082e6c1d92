//! Plugins as a whole: folders, versions, processes, and what hostile ones come to.

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests time what ends, and run calls side by side")]
mod calls;
#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "the control is a program without a sandbox")]
mod hostile;
#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests time what ends, and run calls side by side")]
mod reload;
#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests time what ends, and run calls side by side")]
mod servers;
#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "it is what is measured")]
mod speed;
#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "the clock of these tests, and their tasks")]
mod stage;
