//! `scash bench comm`: what message passing costs, by each protocol and on each provider, beside the figures
//! of the papers that it is made after; with `--compare`, beside MPI libraries.
//!
//! Everything is measured by `scash-comm-bench`, which is started anew for each [`Work`]. All works of a
//! table run once in each round, one after the other, so what a line compares are neighbours in time.
//! [`protocols`] is CLUMP's Table 4, [`operations`] what MMP's figures and tables show, [`compare`] the
//! comparison.

mod compare;
mod lines;
mod operations;
mod place;
mod protocols;

use super::Session;
use super::limited::Limit;
use place::{Transport, Transports};

/// Message passing: latency and bandwidth by protocol, collective operations, overlap, long queues, start-up
/// and memory
#[derive(Clone, Debug, Default, clap::Args)]
pub(super) struct Options {
    /// Measure on these [default: all that work here]: shm, tcp (through the loopback interface), hosts
    /// (auto, between two network namespaces), ofi
    #[arg(long, value_name = "PLACE,…", value_delimiter = ',', value_enum)]
    on: Vec<Transport>,

    /// Compare with Open MPI, Open MPI on UCX, and MPICH in turns, over shared memory and TCP, as far as they
    /// are installed
    #[arg(long)]
    compare: bool,

    #[command(flatten)]
    limit: Limit,
}

/// Measures and compares; whether everything could be measured.
pub(super) fn run(session: &Session, options: &Options) -> bool {
    let places = match Transports::find(&options.on) {
        Ok(places) => places,
        Err(why) => {
            crate::say(&why);
            return false;
        }
    };
    places.missing().iter().for_each(|why| session.show(&format!("Not measured: {why}\n")));
    if options.compare {
        return compare::run(session, &places, options.limit);
    }
    let protocols = protocols::run(session, &places);
    operations::run(session, &places) && protocols
}
