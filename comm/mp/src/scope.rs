//! Non-blocking operations on borrowed memory: none outlives the scope that it was begun in, so none outlives
//! what it borrows.

use super::communicator::{Communicator, Received, Request};
use super::window::Window;
use scash_comm::Result;
use std::cell::RefCell;
use std::marker::PhantomData;

/// Within it, operations on borrowed memory can be begun; see [`Communicator::scope`].
#[derive(Debug)]
pub struct Scope<'scope, 'env: 'scope> {
    communicator: &'env Communicator,
    /// The operations begun, in their order; `None`: over, and collected.
    begun: RefCell<Vec<Option<Request>>>,
    scope: PhantomData<&'scope mut &'scope ()>,
}

/// An operation of a scope.
#[derive(Clone, Copy, Debug)]
pub struct Operation<'scope> {
    index: usize,
    scope: PhantomData<&'scope ()>,
}

impl Communicator {
    /// Calls `work`, and waits for all operations that it has begun and not waited for itself.
    ///
    /// ```no_run
    /// # use scash_mp::Communicator;
    /// # use scash_comm::Result;
    /// # fn exchange(communicator: &Communicator, peer: u32, mine: &[u8], theirs: &mut [u8]) -> Result<()> {
    /// communicator.scope(|scope| {
    ///     scope.receive(Some(peer), Some(0), theirs)?;
    ///     scope.send(peer, 0, mine)?;
    ///     Ok(())
    /// })
    /// # }
    /// ```
    ///
    /// # Errors
    /// What `work` returns, else why the first of the operations that failed did so. All are over in any
    /// case.
    pub fn scope<'env, T>(
        &'env self,
        work: impl for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> Result<T>,
    ) -> Result<T> {
        let scope = Scope { communicator: self, begun: RefCell::default(), scope: PhantomData };
        // Dropped last, also if `work` panics: the memory is borrowed until the operations on it are over.
        let guard = Guard { scope: &scope };
        let done = work(&scope);
        let ended = guard.end();
        done.and_then(|value| ended.map(|()| value))
    }
}

impl<'scope> Scope<'scope, '_> {
    /// Begins to send.
    ///
    /// # Errors
    /// There is no such rank, or it is gone.
    pub fn send(&'scope self, to: u32, tag: u64, bytes: &'scope [u8]) -> Result<Operation<'scope>> {
        // SAFETY: the bytes are borrowed for longer than the scope lives, which ends when the operation is
        // over.
        let request = unsafe { self.communicator.start_send(to, tag, bytes.as_ptr(), bytes.len()) }?;
        Ok(self.begin(request))
    }

    /// Begins to receive into memory that is as long as the message or longer.
    ///
    /// # Errors
    /// There is no such rank, or it is gone.
    pub fn receive(
        &'scope self,
        source: Option<u32>,
        tag: Option<u64>,
        into: &'scope mut [u8],
    ) -> Result<Operation<'scope>> {
        // SAFETY: as above, and nobody else has the memory meanwhile.
        let request = unsafe { self.communicator.start_receive(source, tag, into.as_mut_ptr(), into.len()) }?;
        Ok(self.begin(request))
    }

    /// Begins to get bytes of a rank's part of a window.
    ///
    /// # Errors
    /// There is no such rank or place in the window, or the rank is gone.
    pub fn get(
        &'scope self,
        window: &Window,
        from: u32,
        offset: usize,
        into: &'scope mut [u8],
    ) -> Result<Operation<'scope>> {
        // SAFETY: as above.
        let request =
            unsafe { self.communicator.start_get(window, from, offset, into.as_mut_ptr(), into.len()) }?;
        Ok(self.begin(request))
    }

    /// Waits for an operation. The second time, there is nothing to be told of it.
    ///
    /// # Errors
    /// Why it failed.
    pub fn wait(&'scope self, operation: Operation<'scope>) -> Result<Received> {
        let request = self.begun.borrow_mut()[operation.index].take();
        request.map_or(Ok(Received::default()), |request| self.communicator.wait(request))
    }

    fn begin(&self, request: Request) -> Operation<'scope> {
        let mut begun = self.begun.borrow_mut();
        begun.push(Some(request));
        Operation { index: begun.len() - 1, scope: PhantomData }
    }
}

/// Waits for a scope's operations.
struct Guard<'a, 'scope, 'env> {
    scope: &'a Scope<'scope, 'env>,
}

impl Guard<'_, '_, '_> {
    fn end(&self) -> Result<()> {
        let begun = self.scope.begun.take();
        self.scope.communicator.wait_all(begun.into_iter().flatten()).map(drop)
    }
}

impl Drop for Guard<'_, '_, '_> {
    fn drop(&mut self) {
        // Whoever could be told has been.
        let _ = self.end();
    }
}
