//! What the egress connector promises, tried on real sockets.

#[cfg(test)]
mod data;
#[cfg(test)]
mod egress;
#[cfg(test)]
mod rebinding;
#[cfg(test)]
mod redirects;
#[cfg(test)]
mod site;
