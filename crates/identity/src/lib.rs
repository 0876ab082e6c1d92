//! Credentials to principals. The only place where a Principal is made. Pure.
