//! Admit and decide. Pure.
