//! The end of operations: of one, of any, of some, or of all.

use super::communicator::{Communicator, Received, Request};
use super::driver::Goal;
use super::engine::Engine;
use super::requests::{Completion, Outcome, RequestNumber};
use scash_comm::Result;
use scash_comm::biased::Guard;

/// An operation that is over: its index among those that were asked about, and what came of it.
pub type Completed = (usize, Result<Received>);

impl Request {
    /// The request as a number, for interfaces to other languages: 0 if the operation is over already.
    /// Numbers of operations are 2³² or more.
    pub fn into_raw(self) -> u64 {
        self.0.map_or(0, |number| number.0)
    }

    /// The request that was this number. Of a number that names no operation, or none any more, each call
    /// says so.
    pub fn from_raw(number: u64) -> Self {
        Self((number != 0).then_some(RequestNumber(number)))
    }

    fn outcome(&self, engine: &mut Engine) -> Option<Outcome> {
        self.0.map_or_else(|| Some(Ok(Completion::default())), |number| engine.outcome(number))
    }

    fn is_over(&self, engine: &mut Engine) -> bool {
        self.0.is_none_or(|number| engine.is_over(number))
    }
}

impl Communicator {
    /// Waits for the end of an operation.
    ///
    /// # Errors
    /// Why it failed, or that there is no such operation.
    pub fn wait(&self, request: Request) -> Result<Received> {
        let Request(Some(number)) = request else { return Ok(Received::default()) };
        self.end_of(self.shared.engine(), number)
    }

    /// Waits for the end of an operation, for a thread that has the engine.
    #[inline]
    pub(super) fn end_of<'a>(
        &'a self,
        mut engine: Guard<'a, Engine>,
        number: RequestNumber,
    ) -> Result<Received> {
        let mut wait = self.shared.wait_for(Goal::Operation(number));
        loop {
            if let Some(status) = engine.received(number) {
                return Ok(Received { status, bytes: Vec::new() });
            }
            if let Some(outcome) = engine.outcome(number) {
                return self.received(outcome);
            }
            engine = wait.go_on(engine);
        }
    }

    /// Makes progress; if the operation is over then, what came of it. It is not to be asked for again.
    ///
    /// # Errors
    /// Why it failed.
    pub fn test(&self, request: &mut Request) -> Result<Option<Received>> {
        let outcome = self.look(|engine| request.outcome(engine));
        if outcome.is_some() {
            request.0 = None;
        }
        outcome.map(|outcome| self.received(outcome)).transpose()
    }

    /// Waits until one of the operations is over, takes it out, and returns it with its index in the order
    /// before. `None` if there are no operations.
    pub fn wait_any(&self, requests: &mut Vec<Request>) -> Option<Completed> {
        if requests.is_empty() {
            return None;
        }
        let over = self.shared.until(Goal::OneOf(requests.len()), |engine| first(requests, engine));
        Some(self.take(requests, over))
    }

    /// Makes progress; if one of the operations is over then, takes it out, and returns it with its index in
    /// the order before.
    pub fn test_any(&self, requests: &mut Vec<Request>) -> Option<Completed> {
        let over = self.look(|engine| first(requests, engine))?;
        Some(self.take(requests, over))
    }

    /// Waits until at least one of the operations is over, takes out all that are, and returns them with
    /// their indices in the order before. Empty only if there are no operations.
    pub fn wait_some(&self, requests: &mut Vec<Request>) -> Vec<Completed> {
        if requests.is_empty() {
            return Vec::new();
        }
        self.shared.until(Goal::OneOf(requests.len()), |engine| self.some(requests, engine))
    }

    /// Makes progress, takes out all operations that are over then, and returns them with their indices in
    /// the order before.
    pub fn test_some(&self, requests: &mut Vec<Request>) -> Vec<Completed> {
        self.look(|engine| self.some(requests, engine)).unwrap_or_default()
    }

    /// Waits until all operations are over. What came of them, in their order.
    ///
    /// # Errors
    /// Why the first of those that failed did so; all are over then, too.
    pub fn wait_all(&self, requests: impl IntoIterator<Item = Request>) -> Result<Vec<Received>> {
        let all: Vec<Result<Received>> = requests.into_iter().map(|request| self.wait(request)).collect();
        all.into_iter().collect()
    }

    /// Makes progress; if all of the operations are over then, takes them out, and returns what came of them,
    /// in their order. Otherwise `None`, and all can be asked about again.
    pub fn test_all(&self, requests: &mut Vec<Request>) -> Option<Vec<Result<Received>>> {
        self.look(|engine| {
            let are_over = requests.iter().all(|request| request.is_over(engine));
            are_over.then(|| {
                requests
                    .drain(..)
                    .filter_map(|request| request.outcome(engine))
                    .map(|outcome| self.received(outcome))
                    .collect()
            })
        })
    }

    /// Whether the request names an operation whose end was not told yet.
    pub fn has(&self, request: &Request) -> bool {
        request.0.is_none_or(|number| self.shared.engine().has(number))
    }

    /// How many operations of this rank were begun, and not yet waited for, tested to their end, or
    /// cancelled. One that was over as it began is none of them.
    pub fn unfinished(&self) -> usize {
        self.shared.engine().unfinished()
    }

    /// What `over` gives now, or else after some progress.
    fn look<T>(&self, mut over: impl FnMut(&mut Engine) -> Option<T>) -> Option<T> {
        let mut engine = self.shared.engine();
        if let Some(result) = over(&mut engine) {
            return Some(result);
        }
        self.shared.drive(&mut engine);
        engine = self.shared.call(engine);
        over(&mut engine)
    }

    fn take(&self, requests: &mut Vec<Request>, (at, outcome): (usize, Outcome)) -> Completed {
        requests.remove(at).0.take();
        (at, self.received(outcome))
    }

    /// Takes out all operations that are over, if there are any.
    fn some(&self, requests: &mut Vec<Request>, engine: &mut Engine) -> Option<Vec<Completed>> {
        let (mut over, mut at) = (Vec::new(), 0);
        requests.retain_mut(|request| {
            let outcome = request.outcome(engine);
            let is_under_way = outcome.is_none();
            over.extend(outcome.map(|outcome| (at, self.received(outcome))));
            at += 1;
            is_under_way
        });
        (!over.is_empty()).then_some(over)
    }

    fn received(&self, outcome: Outcome) -> Result<Received> {
        self.shared.told(outcome.map(|ended| Received { status: ended.status, bytes: ended.bytes }))
    }
}

/// The first operation that is over.
fn first(requests: &[Request], engine: &mut Engine) -> Option<(usize, Outcome)> {
    let mut all = requests.iter().enumerate();
    all.find_map(|(at, request)| request.outcome(engine).map(|outcome| (at, outcome)))
}
