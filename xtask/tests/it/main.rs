//! Tests of `cargo xtask` from outside: the packages that `dist` makes, installed as users do.
#![cfg_attr(
    test,
    expect(
        clippy::disallowed_methods,
        reason = "a test stands outside: it starts programs and looks at the clock"
    )
)]

#[cfg(test)]
mod real;
