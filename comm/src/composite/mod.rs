//! The composite endpoint: one numbering of all ranks of several hosts; within a host through shared memory,
//! between hosts through a network's provider, chosen per peer. (PM/Composite did this for clusters of
//! multiprocessors, which is where the name is from.)
//!
//! Each rank has two members: a [`ShmEndpoint`](crate::shm::ShmEndpoint) for the ranks of its host, itself
//! included, and an endpoint of a [`Network`](crate::network::Network) for all others. Every call goes to the
//! member that reaches the peer.
//!
//! | module | what it is |
//! |---|---|
//! | `numbering` | the job's numbers of ranks and those within a host; the start-up exchange as a host's ranks see it |
//! | `endpoint` | the composite |
//!
//! # Why the guarantees hold
//! A pair of ranks has one member for all its traffic, so what is said of pairs (1, 2, 3 and 5) holds as it
//! does in that member.
//! 4. *Death.* A rank is known to one member, which delivers its [`Event::Down`](crate::Event::Down) once.
//!    Should a network know of this host's ranks as well, what it says of them is not passed on.
//! 6. *Atomic operations come one after the other*, through whichever member they come. A rank of the owner's
//!    host operates by an instruction of its processor on its mapping of the word. For a rank of another host
//!    the network's endpoint *of the owner* does so, which is what [`Network`](crate::network::Network) asks
//!    for; the mapping is another one, of the same memory. Instructions on one memory have one order. (An
//!    adapter that operates on memory past the processors would break this.)
//! 7. *A word announces what was put before it*, also where the put came through one member and the word is
//!    read through the other. A put from the owner's host is a copy into the owner's memory, and a fence
//!    orders it before the operation (`Atomic::execute`). One from another host is in that memory before the
//!    network's endpoint of the owner operates (guarantee 7 there). Both operate by instructions that are
//!    sequentially consistent; so who reads the word, by an instruction of its own or through its owner's
//!    endpoint, and gets the bytes after that, finds them in the owner's memory.
//!
//! # Waiting
//! Whoever waits looks at both members in turn: at the rings several times for each look at the network,
//! because they cost nanoseconds and no system call. The turn is the network's
//! [`Network::idle_with`](crate::network::Network::idle_with): the thread serves peers of other hosts
//! meanwhile, where that network has it so, and sleeps at last in what the network sleeps in. The rings are
//! its [`Companion`](crate::network::Companion): a rank's *alarm* is an eventfd that it has given to the
//! ranks of its host, and lies among what the network sleeps on. Raising it costs what the futex of `shm`
//! costs, and is done as seldom: only if the bell says that somebody sleeps (`shm::bell`).
//!
//! **Why no wake-up is lost.** The thread that sleeps (the one that leads, where several do) sets the bell's
//! `ASLEEP`, then a full fence, then looks at the rings, at what the network has, and at whether another
//! thread of its process has delivered anything since it last looked around. Only then it sleeps. A sender of
//! its host publishes, then a full fence, then reads the bell. If the sleeper's fence is first, the sender
//! sees `ASLEEP` and raises the alarm; whenever that is, the alarm stays raised until it is read, by the
//! leader and after its sleep. If the sender's fence is first, the sleeper sees the frame. What another
//! thread of its process took out of the rings is told by [`Network::rouse`](crate::network::Network::rouse),
//! and by the network's own means what that thread took from there. (`tests/shm_models.rs` tries all orders
//! of a sender and a sleeper.)

mod endpoint;
mod numbering;

pub use endpoint::CompositeEndpoint;
