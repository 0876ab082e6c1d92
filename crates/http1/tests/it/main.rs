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
mod lenient_reader;
#[cfg(test)]
mod readers;
#[cfg(test)]
mod scripted_stream;
