//! Endpoints that are left and not closed yet.
//!
//! A process that has several (a test's, whose ranks are threads) closes them when it has left the last.
//! libfabric's `shm` lets endpoints of one process reach each other's queues without a mapping of their own,
//! and may touch a peer's after an operation on it is complete: so to close one while another is in use takes
//! memory away under it.

use super::lock;
use super::shared::Shared;
use std::sync::{Arc, Mutex};

/// How many endpoints are in use, and those that are not.
struct Retired {
    living: usize,
    dead: Vec<Arc<Shared>>,
}

static RETIRED: Mutex<Retired> = Mutex::new(Retired { living: 0, dead: Vec::new() });

/// Says that one of this process's endpoints is in use as long as this lives, and closes it some time later.
pub(super) struct Living(Arc<Shared>);

impl Living {
    pub(super) fn new(shared: Arc<Shared>) -> Living {
        lock(&RETIRED).living += 1;
        Living(shared)
    }
}

impl Drop for Living {
    fn drop(&mut self) {
        let mut retired = lock(&RETIRED);
        retired.living -= 1;
        retired.dead.push(Arc::clone(&self.0));
        if retired.living == 0 {
            retired.dead.clear();
        }
    }
}
