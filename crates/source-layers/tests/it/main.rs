//! Layers around real executors.

#[cfg(test)]
mod layers;
