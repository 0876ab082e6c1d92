//! Golden files, calls, names and schemas of all formats; real definitions and real calls.

#[cfg(test)]
mod both_ways;
#[cfg(test)]
mod calls;
#[cfg(test)]
mod data;
#[cfg(test)]
mod golden;
#[cfg(test)]
mod names;
#[cfg(test)]
mod oracle;
#[cfg(test)]
mod outcomes;
#[cfg(test)]
mod providers;
#[cfg(test)]
mod schemas;
#[cfg(test)]
mod tool_search;
