//! Generated inputs: 20,000 of each side, 10 million where `TOOLKEEP_DEEP` asks for full counts.

use crate::compare::DifferenceCount;
use crate::generate::Generator;
use crate::lenient_reader;
use crate::readers::{our_requests, our_responses};
use crate::scripted_stream::timers;

fn count() -> u64 {
    if std::env::var_os("TOOLKEEP_DEEP").is_some() { 10_000_000 } else { 20_000 }
}

#[test]
fn a_request_is_what_hyper_reads_or_is_passed_on() {
    let timers = timers();
    let _entered = timers.enter();
    let (mut ours, mut control) = (DifferenceCount::default(), DifferenceCount::default());
    for seed in 0..count() {
        let mut generator = Generator::new(seed);
        let (input, step) = (generator.requests(), generator.step());
        ours.requests(&input, step, our_requests(&input, step));
        if seed < 2_000 {
            control.requests(&input, step, lenient_reader::requests(&input));
        }
    }
    ours.assert_no_differences("requests");
    // Positive controls: a lax reader is caught, and what is compared is not only refused.
    assert!(control.differing.len() > 50, "{} differ", control.differing.len());
    assert!(ours.same > ours.inputs / 4 && ours.whole > ours.inputs / 8, "{ours:?}");
}

#[test]
fn a_response_is_what_hyper_reads_or_is_refused() {
    let (mut ours, mut control) = (DifferenceCount::default(), DifferenceCount::default());
    for seed in 0..count() {
        let mut generator = Generator::new(seed);
        let parts = generator.responses();
        let (step, is_head) = (generator.step(), generator.one_in(16));
        ours.responses(&parts, (is_head, step), our_responses(&parts, is_head, step));
        if seed < 2_000 {
            control.responses(&parts, (is_head, step), lenient_reader::responses(&parts));
        }
    }
    ours.assert_no_differences("responses");
    assert!(control.differing.len() > 50, "{} differ", control.differing.len());
    assert!(ours.same > ours.inputs / 4 && ours.whole > ours.inputs / 8, "{ours:?}");
}
