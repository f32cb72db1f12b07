//! Endpoints, registered memory, put, get, atomic operations and messages. Each rank has one [`Endpoint`];
//! peers are addressed by rank.
//!
//! This crate knows no page and no protocol: it moves bytes between ranks. What stands above asks an endpoint
//! for its *capabilities* ([`Caps`]), never for the name of its provider. Three providers move bytes: [`shm`]
//! within a host, [`tcp`] anywhere, and, in a crate of its own, `ofi` over libfabric; [`composite`] makes one
//! endpoint of two, for ranks of which several are on each of several hosts.
//!
//! # Guarantees that every provider gives (the conformance suite in `conformance` checks each)
//! 1. **Order.** Messages from one rank to another arrive in the order they were sent, and a message never
//!    overtakes a put that was issued before it by the same rank to the same rank.
//! 2. **Put and get exclude each other per pair.** If rank S gets bytes of rank H into its own memory while H
//!    puts newer bytes into the same place of S, the put is what stays: a put never lands *under* a get that
//!    had read H's memory before H issued the put.
//! 3. **No call waits for the application of a peer**, except [`Endpoint::get`], [`Endpoint::atomic`] and
//!    [`Endpoint::fence`], which wait for the peer's *endpoint* (served by its background thread or by a
//!    thread that waits, or by nobody at all where memory is mapped directly).
//! 4. **A peer's death is an event**, [`Event::Down`], or an [`Error::Down`] from a call that needs the peer:
//!    never a hang, never a panic. A peer that is *stopped*, or whose host is cut off, is not dead: see
//!    [`Endpoint::give_up`], which message passing calls when a rank has been silent for too long.
//! 5. **A rank reads what it wrote.** A get from a peer sees what its own rank has put to that peer and
//!    flushed before, whether or not the peer's application has made a call since. An atomic operation comes
//!    after the same puts.
//! 6. **Atomic operations come one after the other.** Each takes effect at one instant between its call and
//!    its return, whichever ranks and threads operate on the word, its owner among them. So the operations of
//!    a job, on all words, have one order, in which each thread's are in the order of its calls.
//! 7. **A word announces what was put before it.** An atomic operation of rank R on a word of rank H comes
//!    after what R has put to H and flushed before, and, if R is H, after what it has written there. Who
//!    reads by an atomic operation what that one left in the word, or what later ones made of it, has those
//!    bytes: H in its memory, any other rank by a get from H.
//!
//! Atomic operations order nothing else. What R has put to other ranks than H is there for sure only after a
//! fence. A put, a get or a plain access to a word, not ordered with an atomic operation on it, may see or
//! leave any mixture of bytes; that includes a get by the word's owner *into* the word, for guarantee 2
//! speaks of puts only. A word is operated on in one width: operations of both widths on the same bytes
//! exclude each other no more than plain accesses do.
//!
//! # What it asks in return
//! **No memory that a call is given may fault into the caller**: neither what a [`send`](Endpoint::send)
//! sends, nor the sources of a put, nor the destinations of a get, nor where a part of a message is
//! [taken](Bytes::take) to, nor a registered segment. Calls access it under the endpoint's locks, or have the
//! kernel access it, which fails where a program would fault. A fault that is served through the same
//! endpoint would wait for its own thread. A DSM therefore gives addresses of its always accessible mapping
//! of the frames, never of the protected view of the application.

#![warn(missing_docs)]

mod atomic;
pub mod biased;
mod board;
pub mod composite;
pub mod conformance;
pub mod descriptors;
mod endpoint;
mod error;
mod exchange;
pub mod forked;
pub mod mem_exchange;
pub mod network;
mod patience;
pub mod racing;
pub mod remote;
mod renewable;
pub mod say;
mod secret;
mod shared_memory;
pub mod shm;
mod stillness;
pub mod tcp;

pub use atomic::{Atomic, Rmw};
pub use board::{Board, Coming, Mark};
pub use endpoint::{
    Bytes, Caps, Endpoint, Event, GetRange, LONGEST_HEAD, LocalSegment, PutRange, SegmentId, Traffic,
};
pub use error::{Error, Result};
pub use exchange::Exchange;
pub use patience::give_way;
pub use renewable::Renewable;
pub use secret::{Secret, SecretBytes, SecretText, wipe};
pub use shared_memory::SharedMemory;
pub use stillness::Stillness;
