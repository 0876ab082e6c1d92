//! Nodes: their calls, and where their registry is kept.
#[cfg(test)]
mod calls;
#[cfg(test)]
mod certificates;
#[cfg(test)]
mod data;
#[cfg(test)]
mod faults;
#[cfg(test)]
mod kept;
#[cfg(test)]
mod kubernetes;
#[cfg(test)]
mod real;
#[cfg(test)]
mod support;
