//! Fakes of the ports and the clock, fake upstreams, fault proxy.
