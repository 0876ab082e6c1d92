//! What guard promises, tried on real processes, sockets and files.

#[cfg(test)]
mod marks;
#[cfg(test)]
mod process;
