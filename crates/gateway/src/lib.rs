//! The pipeline: one function that every call goes through.
