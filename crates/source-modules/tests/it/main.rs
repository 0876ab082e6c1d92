//! HTTP modules over real sockets.

#[cfg(test)]
mod module;
