//! Golden files, calls and names of all formats.

#[cfg(test)]
mod calls;
#[cfg(test)]
mod data;
#[cfg(test)]
mod golden;
#[cfg(test)]
mod names;
#[cfg(test)]
mod outcomes;
#[cfg(test)]
mod providers;
