//! Differential tests: the messages that this crate reads are those that hyper reads.

#[cfg(test)]
mod compare;
#[cfg(test)]
mod data;
#[cfg(test)]
mod generate;
#[cfg(test)]
mod generated;
#[cfg(test)]
mod lax;
#[cfg(test)]
mod readers;
#[cfg(test)]
mod script;
