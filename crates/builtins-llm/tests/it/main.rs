//! The tools with the model that they are made for.

#[cfg(test)]
mod calls;
#[cfg(test)]
mod data;
#[cfg(test)]
mod real;
