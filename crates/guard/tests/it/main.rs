//! What guard promises, tried on real processes, sockets and files.

#[cfg(test)]
#[expect(
    clippy::disallowed_methods,
    reason = "controls start programs without a cage, and tests time what ends"
)]
mod cage;
#[cfg(test)]
mod data;
#[cfg(test)]
#[expect(
    clippy::disallowed_methods,
    reason = "each runs itself again, and a program without the launcher"
)]
mod descriptors;
#[cfg(test)]
mod egress;
#[cfg(test)]
mod marks;
#[cfg(test)]
mod process;
#[cfg(test)]
mod races;
#[cfg(test)]
mod rebinding;
#[cfg(test)]
mod redirects;
#[cfg(test)]
mod roots;
#[cfg(test)]
mod site;
