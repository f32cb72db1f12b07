//! This machine, as the simulator wants it: LogGP's parameters of each provider, and what pages and
//! arithmetic take.
//!
//! Of several samples the least counts: a model is of a machine that nobody else disturbs.

use super::{Options, Program};
use crate::Session;
use crate::runner::{Job, On};
use scash_bench::record::Record;
use scash_bench::scale::{Compute, Machine, Network, PageCosts, Time, trace};

/// Bytes of the pages and of the large put that `scash-micro network` measures.
const PAGE: f64 = 4096.0;
const LARGE: f64 = (1 << 20) as f64;

/// This machine over shm and over tcp, if it could be measured.
pub(super) fn machines(session: &Session, options: &Options) -> Option<[Machine; 2]> {
    let pages = pages(session)?;
    let compute = compute(session, options)?;
    let machine = |provider: &str| {
        let network = network(&only(session, &micro(On::Alone, &["network", "--provider", provider], &[]))?)?;
        Some(Machine { name: format!("measured here, {provider}"), network, pages, compute })
    };
    Some([machine("shm")?, machine("tcp")?])
}

fn micro(on: On, arguments: &[&str], quick: &[&str]) -> Job {
    Job::new("scash-micro", on, arguments.iter().chain(quick))
}

/// The one record that a job prints.
fn only(session: &Session, job: &Job) -> Option<Record> {
    session.measure(job)?.pop()
}

fn figure(record: &Record, name: &str) -> Option<f64> {
    let found = record.figures.get(name).copied();
    if found.is_none() {
        crate::say(&format!("{} {} says nothing of {name}", record.program, record.mode));
    }
    found
}

fn microseconds(count: f64) -> Time {
    Time::seconds(count * 1e-6)
}

/// LogGP's parameters from what was measured between two ranks. What one of them cannot be, less than
/// nothing, it is not.
///
/// * o is a send until it returns; that a receive takes as long is an assumption.
/// * L is what a one-way trip takes beside two of these.
/// * g is a message of a burst.
/// * G is what a large put takes longer than a small one, a byte.
/// * What is left of a get is its answer's.
fn network(record: &Record) -> Option<Network> {
    let of = |name: &str| figure(record, name);
    let (round_trip, send) = (of("round_trip_min_us")?, of("send_min_us")?);
    let (put, large_put, get) = (of("put_min_us")?, of("large_put_min_us")?, of("get_min_us")?);
    let latency = (round_trip / 2.0 - 2.0 * send).max(0.0);
    let byte = ((large_put - put) / (LARGE - PAGE)).max(0.0);
    let direct = record.parameters.get("direct").and_then(serde_json::Value::as_bool)?;
    Some(Network {
        latency: microseconds(latency),
        overhead: microseconds(send),
        gap: microseconds(of("in_burst_min_us")?),
        per_byte: microseconds(byte),
        serve: microseconds(get - round_trip - PAGE * byte),
        direct,
    })
}

/// What work on pages takes, from what faults and diffs take.
fn pages(session: &Session) -> Option<PageCosts> {
    let quick: &[&str] = if session.how.quick { &["--rounds", "2", "--pages", "32"] } else { &[] };
    let two = On::Ranks(2, "shm");
    let engine = only(session, &micro(On::Alone, &["engine"], quick))?;
    let fault = only(session, &micro(two, &["fault"], quick))?;
    let diff = only(session, &micro(two, &["diff"], quick))?;
    let signal = figure(&engine, "signal_min_us")?;
    let to_writable = figure(&engine, "read_only_to_writable_min_us")?;
    let equal = figure(&diff, "equal_encode_ns")? * 1e-3;
    Some(PageCosts {
        fault: microseconds(signal),
        call: microseconds(to_writable - signal),
        zero: microseconds(figure(&fault, "first_touch_in_order_min_us")?),
        // The same fault with the protocol makes a twin.
        copy: microseconds(figure(&fault, "read_only_to_writable_min_us")? - to_writable),
        compare: microseconds(equal),
        encode: microseconds(figure(&diff, "dense_encode_ns")? * 1e-3 - equal),
        apply: microseconds(figure(&diff, "dense_apply_ns")? * 1e-3),
    })
}

/// What arithmetic takes: the sequential programs' times, divided by what they compute.
fn compute(session: &Session, options: &Options) -> Option<Compute> {
    let Options { grid, iterations, matrix, block, .. } = options;
    let seconds = |program: Program, parameters: String| {
        let arguments = parameters.split_whitespace().chain(["--repeat", "3"]);
        let records = session.measure(&Job::new(program.name(), On::Sequential, arguments))?;
        records.into_iter().map(|record| record.seconds).min_by(f64::total_cmp)
    };
    let nanosecond = Compute { cell: 1e-9, flop: 1e-9 };
    let units = |program| trace::alone(&*options.trace(program, 1), &nanosecond).as_seconds() * 1e9;
    let laplace = seconds(Program::Laplace, format!("--size {grid} --iterations {iterations}"))?;
    let rounded = matrix.next_multiple_of(*block);
    let lu = seconds(Program::Lu, format!("--size {rounded} --block {block}"))?;
    Some(Compute { cell: laplace / units(Program::Laplace), flop: lu / units(Program::Lu) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loggp_is_what_single_operations_leave() {
        let line = r#"{"program":"scash-micro","mode":"network","ranks":2,"threads":1,"provider":"tcp","engine":null,"seconds":1.0,
            "check":null,"barrier":{"sync":0.0,"diff":0.0,"update":0.0},"faults":0,"messages":0,"bytes":0,"direct":false,
            "figures":{"round_trip_min_us":20.0,"send_min_us":2.0,"in_burst_min_us":3.0,"put_min_us":10.0,
            "large_put_min_us":1054.48,"get_min_us":30.0}}"#;
        let records = scash_bench::record::parse(&line.replace('\n', "")).unwrap();
        let network = network(&records[0]).unwrap();
        let us = |count: f64| microseconds(count);
        assert_eq!((network.latency, network.overhead, network.gap), (us(6.0), us(2.0), us(3.0)));
        assert_eq!((network.per_byte, network.direct), (us(0.001), false));
        assert!(us(5.8) < network.serve && network.serve < us(6.0), "{network:?}");
    }
}
