//! Machines whose figures are known without measuring here.

use super::machine::{Compute, Machine, Network, PageCosts};
use super::time::Time;

const fn ns(count: u64) -> Time {
    Time::nanoseconds(count)
}

/// The page costs of a machine of today: those that `scash bench micro` finds on machine A of
/// `docs/performance.md` (AMD EPYC, Linux 6.18), with userfaultfd.
const TODAY: PageCosts = PageCosts {
    fault: ns(3_100),
    call: ns(1_200),
    zero: ns(500),
    copy: ns(500),
    compare: ns(60),
    encode: ns(100),
    apply: ns(100),
};

/// From the same table: LAPLACE in 35.9 ms and LU in 155 ms by the sequential programs.
const TODAYS_RATES: Compute = Compute {
    cell: 35.9e-3 / (1022.0 * 1022.0 * 50.0),
    flop: 155e-3 / (2048.0 * 2048.0 * 2048.0 * 2.0 / 3.0),
};

/// Ethernet of 10 Gbit/s, by way of the kernel's TCP: what the provider `tcp` would find.
///
/// * G: 10 Gbit/s less the headers of full frames (94 %).
/// * o: a `send` or `recv` of a small message is a system call and the stack's work; over loopback, where
///   both halves of the stack run, `scash bench scale --network measured` finds 3 to 6 µs for the two.
/// * L: half a round trip of TCP between two hosts is about 15 µs where both sides poll and interrupts are
///   not held back, and 55 µs where they are (a 1 Gbit/s card's 110 µs round trip is a common report). We
///   take 15 µs, less 2o.
/// * g: about a million small messages a second and core is what a kernel's stack does at best.
pub fn ethernet_10g() -> Machine {
    let network = Network {
        latency: ns(10_000),
        overhead: ns(2_500),
        gap: ns(1_000),
        per_byte: Time::picoseconds(850),
        serve: ns(5_000),
        direct: false,
    };
    Machine { name: "ethernet-10g".to_owned(), network, pages: TODAY, compute: TODAYS_RATES }
}

/// Ethernet of 100 Gbit/s with remote memory access (RoCE): what a provider for it would find. There is none
/// in scash yet.
///
/// * G: vendors' `ib_send_bw` reaches 97 Gbit/s.
/// * L: `ib_write_lat` on 100 Gbit/s cards finds 0.8 to 1 µs one way back to back; a switch adds 0.3 µs or
///   so. Less 2o.
/// * o: writing a request and ringing the doorbell, or finding a completion: 0.1 to 0.2 µs.
/// * g: such cards take 10 million messages a second and queue, and many more over many queues.
/// * serve: the card reads the home's memory over PCIe: the difference between `ib_read_lat` and twice
///   `ib_write_lat` is small.
pub fn ethernet_100g() -> Machine {
    let network = Network {
        latency: ns(900),
        overhead: ns(150),
        gap: ns(100),
        per_byte: Time::picoseconds(83),
        serve: ns(300),
        direct: false,
    };
    Machine { name: "ethernet-100g".to_owned(), network, pages: TODAY, compute: TODAYS_RATES }
}

/// The machine of the SCASH paper: Myrinet under PM, with Pentium Pro processors of 200 MHz. MB are of 2^20
/// bytes.
///
/// From papers of that laboratory on that machine (1999):
/// * G: zero-copy transfers between hosts reach 97.7 MB/s (MPICH-PM/CLUMP).
/// * L + 2o: a short message takes 11.08 µs one way (the same). With this G, a page by zero copy takes 40.0 +
///   11.1 = 51.1 µs: SCASH measured 49.6. That o is a quarter of it each is our guess, and so is g = 2o.
/// * copy: a page by message takes 122 µs, which is two copies more than by zero copy: 36.2 µs each, 108
///   MB/s, and CLUMP's memory copy had 100.
/// * compare: creating and sending a diff takes 134 µs a page at least: less the 11 µs of a message, 123 µs.
///   Sending the changed bytes is beside it.
/// * encode and apply: a copy of the changed bytes each.
///
/// Not in these papers, and estimated:
/// * fault and call: a signal, and a system call that changes page tables, on that processor: tens of
///   microseconds with the handler's return.
/// * cell: an element is brought into the cache and one taken out, which is a copy of 8 bytes (73 ns at 108
///   MB/s), and four operations take 20 ns at 200 MHz.
/// * flop: 60 million a second for a compiled loop over blocks in the second-level cache.
///
/// So much hangs on these: with 60 to 120 ns an element, LAPLACE comes to speed-ups of 24 to 35 on 64 ranks,
/// and with 30 to 150 million operations a second, LU to 34 to 27. (No machine gives LU more than 36: its
/// blocks do not divide evenly.)
///
/// Their network could write to remote memory and not read from it. The gets that our protocol makes are
/// granted to it all the same.
pub fn scash_1999() -> Machine {
    let network = Network {
        latency: ns(5_540),
        overhead: ns(2_770),
        gap: ns(5_540),
        per_byte: Time::picoseconds(9_761),
        serve: Time::ZERO,
        direct: false,
    };
    let pages = PageCosts {
        fault: ns(20_000),
        call: ns(10_000),
        zero: ns(36_200),
        copy: ns(36_200),
        compare: ns(123_000),
        encode: ns(36_200),
        apply: ns(36_200),
    };
    Machine {
        name: "scash-1999".to_owned(),
        network,
        pages,
        compute: Compute { cell: 93e-9, flop: 1.0 / 60e6 },
    }
}

/// A network that takes no time, between machines on which nothing but arithmetic does: what the program's
/// own division of work allows.
pub fn ideal() -> Machine {
    let none = Time::ZERO;
    let network =
        Network { latency: none, overhead: none, gap: none, per_byte: none, serve: none, direct: false };
    let pages = PageCosts {
        fault: none,
        call: none,
        zero: none,
        copy: none,
        compare: none,
        encode: none,
        apply: none,
    };
    Machine { name: "ideal".to_owned(), network, pages, compute: TODAYS_RATES }
}

#[cfg(test)]
mod tests {
    use super::*;
    use scash_proto::PAGE_SIZE;

    /// The figures of three papers, of which the preset takes only some, agree within a tenth.
    #[test]
    fn the_machine_of_1999_sends_a_page_in_about_the_time_that_was_measured_on_it() {
        let Machine { network, pages, .. } = scash_1999();
        let microseconds = |time: Time| time.as_seconds() * 1e6;
        let zero_copy = network.overhead * 2 + network.latency + network.per_byte * PAGE_SIZE as u64;
        assert!((microseconds(zero_copy) / 49.6 - 1.0).abs() < 0.1, "{zero_copy:?}");
        let message = zero_copy + pages.copy * 2;
        assert!((microseconds(message) / 122.0 - 1.0).abs() < 0.1, "{message:?}");
    }
}
