//! How a process becomes a rank of a job.
//!
//! | module | what it is |
//! |---|---|
//! | [`boot`] | what a rank, its launcher and the launcher's agents say to each other; ranks that another launcher started (PMI, PMIx) |
//! | [`job`] | from there to an endpoint: what the environment says of the network, and the provider of the job |
//! | `setting` | one variable of the environment as text |

pub mod boot;
pub mod job;
mod setting;
