//! The crate as others see it, on inputs that others wrote.

#[cfg(test)]
mod data;
