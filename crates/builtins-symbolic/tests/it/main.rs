//! Tests of the tool in its worker.

#[cfg(test)]
mod calls;
#[cfg(test)]
mod real;
#[cfg(test)]
mod worker;
