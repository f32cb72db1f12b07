//! The conformance suite: what every provider must do, written once against [`Endpoint`].
//!
//! Each test is a function that takes a [`Factory`] and plays a small job with it: *n* ranks as *n* threads,
//! each with an endpoint. A test passes by returning and fails by panicking. A job that is not over after a
//! few minutes fails with a message instead of hanging. [`conformance_tests!`](crate::conformance_tests)
//! turns the whole suite into `#[test]` functions:
//!
//! ```ignore
//! scash_comm::conformance_tests!(|exchange: &mut dyn Exchange| {
//!     Ok(Arc::new(MyEndpoint::new(exchange)?) as Arc<dyn Endpoint>)
//! });
//! ```
//!
//! What the suite takes for granted beyond the guarantees in the crate's documentation:
//! - Dropping an endpoint means that its rank **leaves**. What it had flushed before is still delivered; then
//!   each peer gets [`Event::Down`](crate::Event::Down) once, and calls that need the rank give
//!   [`Error::Down`](crate::Error::Down).
//! - A rank, segment or range that does not exist gives [`Error::Invalid`](crate::Error::Invalid) and nothing
//!   is moved.

// The suite's panics are its verdicts.
#![allow(clippy::unwrap_used)]

use crate::{Endpoint, Exchange, Result};
use std::sync::Arc;

mod atomics;
mod cluster;
mod failures;
mod long;
mod messages;
mod one_sided;
mod waiting;

pub use crate::SharedMemory;
pub use atomics::*;
pub use failures::*;
pub use long::*;
pub use messages::*;
pub use one_sided::*;
pub use waiting::*;

/// What a provider lacks that works everywhere.
pub fn nothing() -> Option<String> {
    None
}

/// Makes the endpoints of one provider (or of a wrapper around one). Every closure of the right shape is one.
pub trait Factory: Send + Sync + 'static {
    /// Makes the endpoint of the rank that `exchange` belongs to. Called by all ranks at the same time.
    fn endpoint(&self, exchange: &mut dyn Exchange) -> Result<Arc<dyn Endpoint>>;

    /// The host that a rank is to believe it runs on.
    fn host(&self, rank: u32) -> u32 {
        let _ = rank;
        0
    }
}

impl<F> Factory for F
where
    F: Fn(&mut dyn Exchange) -> Result<Arc<dyn Endpoint>> + Send + Sync + 'static,
{
    fn endpoint(&self, exchange: &mut dyn Exchange) -> Result<Arc<dyn Endpoint>> {
        self(exchange)
    }
}

/// A factory whose ranks are on several hosts.
#[derive(Clone)]
pub struct OnHosts<F> {
    factory: F,
    hosts: &'static [u32],
}

/// Plays the suite with ranks on these hosts: the first rank on the first one, and so on, from the beginning
/// again if a test has more ranks.
pub fn on_hosts<F: Factory>(hosts: &'static [u32], factory: F) -> OnHosts<F> {
    OnHosts { factory, hosts }
}

impl<F: Factory> Factory for OnHosts<F> {
    fn endpoint(&self, exchange: &mut dyn Exchange) -> Result<Arc<dyn Endpoint>> {
        self.factory.endpoint(exchange)
    }

    fn host(&self, rank: u32) -> u32 {
        self.hosts[rank as usize % self.hosts.len()]
    }
}

/// Makes one `#[test]` of every test of the suite. The argument is an expression for a
/// [`Factory`](crate::conformance::Factory), evaluated once in each test. After a semicolon, names of tests
/// choose some. After `unless`, a function says what a provider lacks on this machine, if anything: then the
/// tests are skipped, and say so.
#[macro_export]
macro_rules! conformance_tests {
    ($factory:expr) => {
        $crate::conformance_tests! { $factory, unless $crate::conformance::nothing }
    };
    ($factory:expr; $($test:ident)*) => {
        $crate::conformance_tests! { $factory, unless $crate::conformance::nothing; $($test)* }
    };
    ($factory:expr, unless $obstacle:expr) => {
        $crate::conformance_tests! { $factory, unless $obstacle;
            messages_arrive_in_order_and_intact
            messages_of_every_length_arrive
            a_rank_sends_to_itself
            two_ranks_flood_each_other_before_either_polls
            many_ranks_send_to_one
            all_ranks_send_to_all
            a_sink_may_answer_at_once
            several_threads_send_through_one_endpoint
            long_messages_arrive_whole_and_in_their_order
            long_messages_arrive_whole_among_puts_gets_and_fences
            a_long_message_that_nobody_takes_is_passed_over
            puts_and_gets_of_every_size_move_the_right_bytes
            scattered_ranges_land_where_they_belong
            a_rank_puts_to_and_gets_from_itself
            a_masked_put_writes_the_bytes_of_its_masks_and_no_other
            segments_are_kept_apart
            a_message_never_overtakes_a_put
            fence_returns_when_earlier_puts_are_in_place
            a_get_sees_what_its_own_rank_has_put_and_flushed
            a_get_needs_no_help_from_its_targets_application
            a_get_never_undoes_a_newer_put
            ranks_that_have_much_to_send_to_each_other_get_from_each_other
            several_threads_put_and_get_through_one_endpoint
            read_peer_shows_the_peers_bytes_where_memory_is_direct
            read_peer_once_shows_what_is_inside_the_segment
            every_atomic_operation_returns_what_was_there_and_leaves_what_it_makes
            additions_by_all_ranks_and_their_threads_are_all_counted_once
            exactly_one_claims_a_number_by_compare_and_swap
            an_atomic_operation_comes_after_what_its_own_rank_has_put_and_flushed
            who_reads_an_atomic_operation_has_the_puts_before_it
            operations_on_different_words_have_one_order
            a_word_that_is_not_aligned_or_not_inside_is_refused
            idle_wakes_up_when_a_message_arrives
            several_threads_wait_on_one_endpoint
            idle_comes_back_when_nothing_happens
            a_nap_is_ended_by_whom_it_concerns_also_before_it_has_begun
            ranks_hold_still_and_go_on
            a_rank_without_peers_holds_still
            traffic_counts_what_was_moved
            a_rank_that_left_is_reported_once_and_then_refused
            what_was_flushed_before_leaving_still_arrives
            the_others_go_on_when_one_leaves
            what_does_not_exist_is_refused_and_nothing_is_moved
        }
    };
    ($factory:expr, unless $obstacle:expr; $($test:ident)*) => {
        $(
            #[test]
            fn $test() {
                match ($obstacle)() {
                    None => $crate::conformance::$test($factory),
                    Some(why) => eprintln!("skipped: {why}"),
                }
            }
        )*
    };
}
