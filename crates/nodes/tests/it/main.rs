//! Registry, source and executor against real gRPC servers on the loopback.

#[cfg(test)]
mod calls;
#[cfg(test)]
mod support;
