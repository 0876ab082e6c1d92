//! Tests of the egress connector on real sockets.

#[cfg(test)]
mod data;
#[cfg(test)]
mod egress;
#[cfg(test)]
mod rebinding;
#[cfg(test)]
mod redirects;
#[cfg(test)]
mod test_server;
