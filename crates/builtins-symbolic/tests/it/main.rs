//! The tool as it is offered, in its worker.

#[cfg(test)]
mod calls;
#[cfg(test)]
mod real;
#[cfg(test)]
mod worker;
