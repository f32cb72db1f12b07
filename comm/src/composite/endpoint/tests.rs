//! How the members are looked at and waited for, with a network that does what a test says.

use super::*;
use crate::mem_exchange::MemExchange;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicU32, Ordering};

/// Who sleeps longer than this was not woken.
const LIMIT_MS: i32 = 60_000;

/// A network without peers. Whoever idles in it sleeps at once, for as long as nobody rings, whatever is
/// asked for.
#[derive(Default)]
struct Fake {
    /// Ranks that it will report as gone.
    gone: Mutex<Vec<u32>>,
    polls: AtomicU32,
    roused: AtomicU32,
}

impl Network for Fake {
    fn idle_with(&self, companion: &dyn Companion, _: u32, limit: Duration) {
        let (bell, _) = companion.lie_down(limit);
        let mut has_rung = false;
        if !companion.has_news() {
            let mut bell = libc::pollfd { fd: bell.unwrap().as_raw_fd(), events: libc::POLLIN, revents: 0 };
            // SAFETY: the structure is ours, and one.
            let ready = unsafe { libc::poll(&raw mut bell, 1, LIMIT_MS) };
            assert_ne!(ready, 0, "nobody woke the sleeper");
            has_rung = bell.revents != 0;
        }
        companion.get_up(has_rung);
    }

    fn rouse(&self) {
        self.roused.fetch_add(1, Ordering::Relaxed);
    }

    fn on_end_of_nap(&self, _: Box<dyn Fn() + Send + Sync>) {}
}

// SAFETY: it is given no memory, and gives none.
unsafe impl Endpoint for Fake {
    fn rank(&self) -> u32 {
        unreachable!("it is not asked")
    }

    fn size(&self) -> u32 {
        unreachable!("it is not asked")
    }

    fn provider(&self) -> &'static str {
        "fake"
    }

    fn caps(&self) -> Caps {
        Caps::empty()
    }

    unsafe fn register(&self, _: &mut dyn Exchange, _: LocalSegment) -> Result<SegmentId> {
        unreachable!("nothing is registered")
    }

    unsafe fn put(&self, _: u32, _: SegmentId, _: &[PutRange]) -> Result<()> {
        unreachable!("it has no peers")
    }

    unsafe fn get(&self, _: u32, _: SegmentId, _: &[GetRange]) -> Result<()> {
        unreachable!("it has no peers")
    }

    fn atomic(&self, _: u32, _: SegmentId, _: u64, _: Atomic) -> Result<u64> {
        unreachable!("it has no peers")
    }

    fn read_peer(
        &self,
        _: u32,
        _: SegmentId,
        _: u64,
        _: usize,
        _: &mut dyn FnMut(*const u8),
    ) -> Result<bool> {
        unreachable!("it has no peers")
    }

    fn send(&self, _: u32, _: u16, _: &[&[u8]]) -> Result<()> {
        unreachable!("it has no peers")
    }

    fn flush(&self) -> Result<()> {
        Ok(())
    }

    fn is_congested(&self, _: u32) -> bool {
        unreachable!("it has no peers")
    }

    fn fence(&self, _: u32) -> Result<()> {
        unreachable!("it has no peers")
    }

    fn poll(&self, sink: &mut dyn FnMut(Event<'_>)) -> Result<usize> {
        self.polls.fetch_add(1, Ordering::Relaxed);
        let gone = std::mem::take(&mut *self.gone.lock().unwrap());
        gone.iter().for_each(|&rank| sink(Event::Down { rank }));
        Ok(gone.len())
    }

    fn idle(&self, _: u32, _: Duration) {
        unreachable!("its threads wait for the host, too")
    }

    fn traffic(&self) -> Traffic {
        Traffic::default()
    }
}

fn composite(exchange: &mut MemExchange) -> CompositeEndpoint<Fake> {
    CompositeEndpoint::new(exchange, &ShmOptions::default(), |_| Ok(Fake::default())).unwrap()
}

/// Plays `body` at the ranks on these hosts.
fn play(hosts: &[u32], body: fn(&CompositeEndpoint<Fake>)) {
    let ranks = MemExchange::ranks_on(hosts).into_iter().map(|mut exchange| {
        std::thread::spawn(move || {
            let endpoint = composite(&mut exchange);
            body(&endpoint);
            // Nobody leaves before all have heard what they wait for.
            exchange.all_gather(&[], &[]).unwrap();
        })
    });
    ranks.collect::<Vec<_>>().into_iter().for_each(|rank| rank.join().unwrap());
}

fn poll(endpoint: &CompositeEndpoint<Fake>) -> usize {
    endpoint.poll(&mut |event| assert!(matches!(event, Event::Message { .. }))).unwrap()
}

#[test]
fn who_sleeps_in_the_network_is_woken_through_shared_memory() {
    play(&[4, 9, 4], |endpoint| {
        if endpoint.rank() == 1 {
            return;
        }
        for round in 0..4_000u16 {
            if endpoint.rank() == u32::from(round % 2) * 2 {
                endpoint.send(2 - endpoint.rank(), round, &[b"wake up"]).unwrap();
                endpoint.flush().unwrap();
            } else {
                while poll(endpoint) == 0 {
                    endpoint.idle(0, Duration::from_secs(3_600));
                }
            }
        }
    });
}

#[test]
fn a_flood_within_the_host_does_not_keep_the_network_from_being_looked_at() {
    play(&[0, 1], |endpoint| {
        for _ in 0..100 {
            endpoint.send(endpoint.rank(), 0, &[]).unwrap();
            assert_eq!(poll(endpoint), 1);
        }
        let polls = endpoint.network.polls.load(Ordering::Relaxed);
        assert!((10..100).contains(&polls), "{polls}");
        assert_eq!(poll(endpoint), 0);
        assert_eq!(endpoint.network.polls.load(Ordering::Relaxed), polls + 1, "a vain poll looks at both");
    });
}

#[test]
fn threads_that_sleep_in_the_network_hear_of_what_another_took_out_of_the_rings() {
    play(&[0, 1], |endpoint| {
        assert_eq!((poll(endpoint), endpoint.network.roused.load(Ordering::Relaxed)), (0, 0));
        endpoint.send(endpoint.rank(), 0, &[]).unwrap();
        assert_eq!((poll(endpoint), endpoint.network.roused.load(Ordering::Relaxed)), (1, 1));
    });
}

#[test]
fn a_rank_is_reported_by_the_member_that_reaches_it() {
    play(&[0, 0, 1], |endpoint| {
        endpoint.network.gone.lock().unwrap().extend([0, 1, 2, 7]);
        let mut downs = Vec::new();
        let polled = endpoint.poll(&mut |event| match event {
            Event::Down { rank } => downs.push(rank),
            Event::Message { from, .. } | Event::Part { from, .. } => panic!("a message from {from}"),
        });
        let polled = polled.unwrap();
        let other_host: &[u32] = if endpoint.rank() == 2 { &[0, 1] } else { &[2] };
        assert_eq!((&*downs, polled), (other_host, other_host.len()));
    });
}
