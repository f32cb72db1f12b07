//! The conformance suite, for ranks that share memory, and what only they can do.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use scash_comm::conformance::SharedMemory;
use scash_comm::mem_exchange::MemExchange;
use scash_comm::shm::{ShmEndpoint, ShmOptions};
use scash_comm::{Endpoint, Exchange, PutRange, Result};
use std::sync::Arc;
use std::thread;

fn endpoint(exchange: &mut dyn Exchange) -> Result<Arc<dyn Endpoint>> {
    Ok(Arc::new(ShmEndpoint::new(exchange, &ShmOptions::default())?))
}

scash_comm::conformance_tests!(endpoint);

/// The suite's most demanding tests once more where threads do not spin but yield and sleep.
mod where_cores_are_scarce {
    use super::*;

    fn endpoint(exchange: &mut dyn Exchange) -> Result<Arc<dyn Endpoint>> {
        let options = ShmOptions { cores: Some(1), ring: Some(16 << 10), ..ShmOptions::default() };
        Ok(Arc::new(ShmEndpoint::new(exchange, &options)?))
    }

    scash_comm::conformance_tests! { endpoint;
        messages_arrive_in_order_and_intact
        messages_of_every_length_arrive
        two_ranks_flood_each_other_before_either_polls
        all_ranks_send_to_all
        a_sink_may_answer_at_once
        a_message_never_overtakes_a_put
        a_get_never_undoes_a_newer_put
        additions_by_all_ranks_and_their_threads_are_all_counted_once
        idle_wakes_up_when_a_message_arrives
        several_threads_wait_on_one_endpoint
        a_rank_that_left_is_reported_once_and_then_refused
        what_was_flushed_before_leaving_still_arrives
    }
}

#[test]
fn segments_of_64_gib_a_rank_are_reserved_without_taking_memory() {
    const LEN: usize = 64 << 30;
    let ranks = MemExchange::ranks(4).into_iter().map(|mut exchange| {
        thread::spawn(move || {
            let endpoint = ShmEndpoint::new(&mut exchange, &ShmOptions::default()).unwrap();
            let memory = SharedMemory::new(LEN).unwrap();
            // SAFETY: the endpoint is dropped before the memory, of whose bytes there are no references.
            let segment = unsafe { endpoint.register(&mut exchange, memory.segment()) }.unwrap();
            let next = (exchange.rank() + 1) % exchange.size();
            let bytes = exchange.rank().to_le_bytes();
            let range = PutRange { offset: LEN as u64 - 4, len: 4, src: bytes.as_ptr() };
            // SAFETY: `bytes` lives until after the flush.
            unsafe { endpoint.put(next, segment, &[range]) }.unwrap();
            endpoint.flush().unwrap();
            exchange.all_gather(&[], &[]).unwrap();
            let before = (exchange.rank() + exchange.size() - 1) % exchange.size();
            assert_eq!(memory.read(LEN - 4, 4), before.to_le_bytes());
            drop(endpoint);
        })
    });
    let ranks: Vec<_> = ranks.collect();
    ranks.into_iter().for_each(|rank| rank.join().unwrap());
}

#[test]
fn ranks_that_were_started_with_different_options_are_told_so() {
    let errors = MemExchange::ranks(2).into_iter().zip([16 << 10, 32 << 10]).map(|(mut exchange, ring)| {
        let options = ShmOptions { ring: Some(ring), ..ShmOptions::default() };
        thread::spawn(move || ShmEndpoint::new(&mut exchange, &options).unwrap_err().to_string())
    });
    for error in errors.collect::<Vec<_>>() {
        let error = error.join().unwrap();
        assert!(error.contains("start all ranks with the same options"), "{error}");
    }
}
