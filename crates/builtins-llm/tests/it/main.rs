//! Tests of the tools with their model and without one.

#[cfg(test)]
mod calls;
#[cfg(test)]
mod data;
#[cfg(test)]
mod examples;
#[cfg(test)]
mod first_day;
#[cfg(test)]
mod real;
#[cfg(test)]
#[path = "../../src/tests/small_model.rs"]
mod small_model;
#[cfg(test)]
mod worker;
