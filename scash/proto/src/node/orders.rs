//! What a node is told, and what it orders.

use super::{AllocOptions, Protocol};
use crate::heap::OutOfSpace;
use crate::page::Access;
use crate::wire::reduce::{ReduceMessage, Reduction};
use crate::wire::stall::Relation;
use crate::wire::sync::{Brought, Request, Signal, SyncMessage};
use crate::wire::{Attendance, Control, Token};
use crate::{Pages, Rank, Strided};

/// What an object is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObjectKind {
    /// Whoever has it is alone.
    Lock,
    /// Whoever has it to write is alone; whoever has it to read shares it with other readers.
    RwLock,
    /// A count, of which who takes one waits until there is one. In the beginning there are so many.
    Semaphore(u32),
    /// A thread that has a lock gives it back and waits for a signal.
    Condition,
    /// A number that only grows, and that threads wait for.
    Flag,
}

impl ObjectKind {
    /// Two numbers that stand for it, so that ranks can compare theirs.
    pub(super) fn numbers(self) -> [u64; 2] {
        match self {
            ObjectKind::Lock => [0, 0],
            ObjectKind::RwLock => [1, 0],
            ObjectKind::Semaphore(count) => [2, u64::from(count)],
            ObjectKind::Condition => [3, 0],
            ObjectKind::Flag => [4, 0],
        }
    }
}

/// A call that all ranks make together. Each includes a memory barrier, unless it says otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Collective {
    /// The memory barrier itself.
    Barrier,
    /// A memory barrier at which the partition that begins at this page passes to its next state.
    Publish(u32),
    /// A memory barrier at which elements of arrays come to have other owners.
    Divide {
        /// The page at which the first of these arrays begins.
        page: u32,
        /// What stands for all of them and their owners: the same at every rank.
        digest: [u64; 2],
    },
    /// Allocate this many bytes.
    Alloc(u64, AllocOptions),
    /// Free the allocation that begins at this page.
    Free(u32),
    /// Make this many objects of synchronisation.
    Make(ObjectKind, u32),
    /// Destroy these objects of synchronisation, which exist and are of that kind. No memory barrier, and
    /// nothing at all, if a thread of any rank uses one.
    Destroy {
        /// What they are.
        kind: ObjectKind,
        /// The number of the first.
        first: u32,
        /// How many they are.
        count: u32,
    },
    /// Bring these pages, which belong to one allocation, to all ranks.
    Broadcast(Pages),
    /// The last meeting of a job.
    Finalize,
}

/// What can happen to a node.
#[derive(Debug)]
pub enum Input {
    /// A thread of this rank touched a page in a way that its access does not allow.
    Fault {
        /// Which page.
        page: u32,
        /// What the thread wants ([`Access::Read`] or [`Access::Write`]).
        want: Access,
    },
    /// Pages of an [`Output::Get`] are here and mapped.
    Fetched(Strided),
    /// They could not be had.
    FetchFailed(Strided),
    /// A checkpoint is due, says this rank's clock or count. May come at any time, in a barrier, too. Nothing
    /// happens if ranks do not come back ([`Config::replicas`](super::Config::replicas)).
    CheckpointDue,
    /// The answer to [`Output::Stage`]: what this rank has is saved, wherever it is to be.
    Staged,
    /// The answer to [`Output::Stage`]: this rank could not save what it has.
    NotStaged,
    /// All threads of this rank have come to a collective call. (To [`Collective::Destroy`] of what threads
    /// wait for, the others have.)
    Arrive(Collective),
    /// The first object that a thread of this rank uses of those that the next [`Collective::Destroy`] names,
    /// where others than the node carry out what is done with objects.
    Uses(Option<InUse>),
    /// A page of an [`Output::Diff`], [`Output::DiffZero`] or [`Output::Push`] was compared.
    Compared {
        /// Which page.
        page: u32,
        /// Whether anything differed.
        changed: bool,
    },
    /// A page of an [`Output::Push`] had changed, in so many pieces that they went to the sharers by message
    /// although the transfer is zero copy. (Or because [`Node::must_message`](super::Node::must_message) said
    /// so.)
    Messaged {
        /// Which page.
        page: u32,
    },
    /// Pages of an [`Output::Scan`] that were written since the last one.
    Written(Pages),
    /// The system refused an [`Output::Watch`]; the pages were protected ([`Access::Read`]) instead.
    Unwatchable(Pages),
    /// All orders before [`Output::Flushed`] have been carried out.
    Flushed,
    /// After an [`Output::Come`] without words: whether all ranks have come to that call for the same, and
    /// without words; or one that has come has words, or came for something else.
    Agreed(bool),
    /// A meeting's token.
    Token(Rank, Token),
    /// A peer's word in a meeting.
    Control(Rank, u32, Control),
    /// A diff for a page whose home is here, in the meeting of the given number. To be applied when this was
    /// accepted.
    Diff(Rank, u32, u32),
    /// Changes of a page that is cached here (transfer by message), likewise.
    Update(Rank, u32, u32),
    /// Pages that a peer put here for a broadcast, in the meeting of the given number: all of the range whose
    /// home is the second rank.
    Parcel(Rank, u32, Rank),
    /// From the next memory barrier on, the home of these pages is to be that rank.
    SetHome(Pages, Rank),
    /// From now on the pages of the allocation that holds this page are kept coherent so.
    SetProtocol(u32, Protocol),
    /// This rank's changes of these pages are to be at their homes now.
    WriteBack(Pages),
    /// Cached copies of these pages are to be as their homes have them now, but for what was written here. If
    /// that orders to wait for a page, it is to be given again from there on.
    ReadHome(Pages),
    /// A page of an [`Output::PutDiff`] was compared.
    PutBack {
        /// Which page.
        page: u32,
        /// Whether anything differed.
        changed: bool,
    },
    /// What came of the pages of an [`Output::Refresh`], where a get is a round trip and
    /// [`Config::exact_after`](super::Config::exact_after) asks for it.
    Refreshed {
        /// Pages in which the home had changed nothing.
        in_vain: Vec<u32>,
        /// Pages in which it had.
        changed: Vec<u32>,
        /// Their home.
        from: Rank,
    },
    /// All puts before [`Output::Closed`] are in the frames that they were for.
    Closed {
        /// Some of those to the rank of that order may still be on their way.
        behind: bool,
    },
    /// A thread of this rank wants a lock, which exists. While it waits, the rank does not come to a
    /// collective call.
    Acquire {
        /// The lock's number.
        lock: u32,
        /// Stands for the thread.
        who: u64,
    },
    /// A thread of this rank wants a lock, which exists, if it is free: [`Output::Acquired`] or
    /// [`Output::Refused`] follows.
    TryAcquire {
        /// The lock's number.
        lock: u32,
        /// Stands for the thread.
        who: u64,
    },
    /// The thread that has a lock gives it back.
    Release(u32),
    /// A thread of this rank waits for something. The object exists and can grant it. While it waits, the
    /// rank does not come to a collective call.
    Request {
        /// The object's number.
        object: u32,
        /// Stands for the thread.
        who: u64,
        /// What for.
        request: Request,
    },
    /// A thread of this rank lets others go on. It may do so to this object.
    Signal {
        /// The object's number.
        object: u32,
        /// Stands for the thread.
        who: u64,
        /// How.
        signal: Signal,
    },
    /// A thread of this rank, which has a lock, gives it back, waits for a condition, and takes the lock
    /// again.
    Wait {
        /// The condition's number.
        condition: u32,
        /// The lock's number.
        lock: u32,
        /// Stands for the thread.
        who: u64,
    },
    /// A thread of this rank destroys an object that one rank has made, and that it does not have itself:
    /// [`Output::Unmade`] or [`Output::Absent`] follows.
    Unmake {
        /// The object's number.
        object: u32,
        /// Stands for the thread.
        who: u64,
    },
    /// A peer's word about an object of synchronisation.
    Sync(Rank, SyncMessage),
    /// This rank comes to a reduction with these values; [`Node::take_reduced`](super::Node::take_reduced)
    /// has the result when all have come. Not while it is in another, or in a collective call.
    Reduce(Reduction, Vec<u64>),
    /// A peer's message of a reduction.
    Reducing(Rank, ReduceMessage),
    /// A thread of this rank wants to execute an atomic operation on a word of a page: [`Output::Operate`]
    /// follows, or an [`Output::Claim`], after whose answer the thread asks again. Between two memory
    /// barriers a word is either operated on, or read and written as plain memory.
    Operate {
        /// Which page.
        page: u32,
        /// Whether the operation may change the word.
        changes: bool,
    },
    /// An [`Output::Operate`] has marked the page.
    Marked(u32),
    /// A page of an [`Output::Push`] is marked in this interval: nothing was brought to anybody. To be
    /// answered only while [`Node::pushes_early`](super::Node::pushes_early) says so.
    IsMarked {
        /// Which page.
        page: u32,
    },
    /// The answer to [`Output::Claim`]: whose the page is.
    Claimed {
        /// The page of the order.
        page: u32,
        /// Its home, if it has one now.
        home: Option<Rank>,
    },
    /// Whether a page of an [`Output::CompareToZeros`] is all zeros.
    IsZero {
        /// Which page.
        page: u32,
        /// Whether it is.
        zero: bool,
    },
    /// A message of an [`Output::SendWrites`] was sent to that rank.
    WritesSent(Rank),
    /// A peer has sent what it wrote, in the meeting of the given number. To be heard when this was accepted.
    WriteTraces(Rank, u32),
}

/// What a node orders. Orders are to be carried out one after the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Give frames, zeroed if new, and access. Only the last page of a run may be the one that faulted.
    MapZero(Pages, Access),
    /// Fetch pages from their home and map them for reading; then [`Input::Fetched`].
    Get {
        /// The home.
        from: Rank,
        /// Which pages, the one that faulted in the first run; at most [`MOST_RUNS`](super::MOST_RUNS) runs.
        pages: Strided,
    },
    /// Give access to pages whose frames hold what they should.
    Map(Pages, Access),
    /// Change the access of mapped pages.
    Protect(Pages, Access),
    /// Take all access; the frames stay.
    Unmap(Pages),
    /// Take all access, and the frames.
    Discard(Pages),
    /// From now on remember which of these pages, which are writable, are written.
    Watch(Pages),
    /// Tell which of these pages, as far as they are watched, were written since the last time:
    /// [`Input::Written`], any number of times.
    Scan(Pages),
    /// Watch these pages no longer; they stay writable.
    Unwatch(Pages),
    /// Tell which of these pages, which were all zeros before this interval, are so still:
    /// [`Input::IsZero`] for each.
    CompareToZeros(Pages),
    /// Copy the page to a twin: to the one that it has, if it has one.
    Twin(u32),
    /// Forget the twin.
    DropTwin(u32),
    /// Another thread is fetching the page: wait until it has.
    Wait(u32),
    /// The page belongs to no allocation: a fault of the program.
    Denied(u32),
    /// Compare the page with its twin and send the home what differs; then [`Input::Compared`].
    Diff {
        /// Which page.
        page: u32,
        /// Its home.
        to: Rank,
        /// Send it even if nothing differs.
        force: bool,
    },
    /// As `Diff`, for a page that was all zeros before this interval and has no twin.
    DiffZero {
        /// Which page.
        page: u32,
        /// Its home.
        to: Rank,
    },
    /// Compare the page with its twin, bring what differs to all sharers
    /// ([`Node::update_sharers`](super::Node::update_sharers)) and to the twin; then [`Input::Compared`].
    Push(u32),
    /// Bring the whole page to all sharers but one.
    PushWhole {
        /// Which page.
        page: u32,
        /// The sharer that has it already.
        except: Option<Rank>,
    },
    /// Bring the whole page to its new home.
    Hand {
        /// Which page.
        page: u32,
        /// The new home.
        to: Rank,
    },
    /// Mark all pages of a home with the number of this interval: puts follow that it knows nothing of.
    MarkAll(Rank),
    /// Compare the page with its twin and put what differs into the home's frame and into the twin; then
    /// [`Input::PutBack`].
    PutDiff {
        /// Which page.
        page: u32,
        /// Its home.
        to: Rank,
    },
    /// Get pages from their home; where page and twin agree, take the home's bytes into both.
    Refresh {
        /// Which pages.
        pages: Vec<u32>,
        /// Their home.
        from: Rank,
        /// What came from there with a lock: it will do for those of the pages of which this rank has seen
        /// nothing newer.
        brought: Brought,
    },
    /// Put whole pages into a peer's frames.
    PutPages {
        /// Which pages.
        pages: Pages,
        /// The peer.
        to: Rank,
    },
    /// Tell a peer that all pages of a broadcast whose home is `home` have been put.
    Parcel {
        /// The peer.
        to: Rank,
        /// Number of the meeting.
        meeting: u32,
        /// The pages' home.
        home: Rank,
    },
    /// Send a message.
    Control(Rank, u32, Control),
    /// Send a token.
    Token(Rank, Token),
    /// Answer with [`Input::Flushed`].
    Flushed,
    /// Tell all ranks at once, where they can see it, that this one has come to the call of that number. With
    /// a `digest` of what for, it has nothing else to say, and is to hear what the others tell:
    /// [`Input::Agreed`].
    Come {
        /// The number of its first meeting: they rise, but for their wrapping around.
        call: u64,
        /// `None`: there is more to say, by messages.
        digest: Option<u64>,
    },
    /// Send the home a diff with nothing in it: what was written is there, by [`Output::PutDiff`].
    Report {
        /// Which page.
        page: u32,
        /// Its home.
        to: Rank,
    },
    /// Answer with [`Input::Closed`] as soon as all puts are in place that were ordered before.
    Closed {
        /// Those to this rank need not be: what was written goes on with the next message to it, which comes
        /// behind the puts.
        next: Option<Rank>,
    },
    /// A thread has what it waited for.
    Acquired {
        /// Which object. For a condition: the lock.
        object: u32,
        /// Which thread.
        who: u64,
    },
    /// A thread tried to get a lock that was not free.
    Refused {
        /// Which lock.
        object: u32,
        /// Which thread.
        who: u64,
    },
    /// A thread's object is no more, or is as it was, because a thread of that rank waits for it.
    Unmade {
        /// Which object.
        object: u32,
        /// Which thread.
        who: u64,
        /// Whose thread waits.
        user: Option<Rank>,
    },
    /// What a thread waits for is no more.
    Absent {
        /// Which object its call was for. For a condition: the lock, which it has if that is there.
        object: u32,
        /// Which thread.
        who: u64,
        /// The object that is no more.
        missing: u32,
    },
    /// Send a message about an object of synchronisation.
    Sync(Rank, SyncMessage),
    /// Send a message of a reduction.
    Reduce(Rank, ReduceMessage),
    /// Ask rank `at` whose the pages are whose claim has number `key` there; and, if they are nobody's, take
    /// them if `take`: [`Input::Claimed`].
    Claim {
        /// The page that faulted.
        page: u32,
        /// The first page of its block: the number of the claim.
        key: u32,
        /// Who keeps the claim.
        at: Rank,
        /// Whether this rank wants to be the home.
        take: bool,
    },
    /// Execute the atomic operation on the word in the frame of rank `at`: after the page has been marked
    /// there with the number of this interval, if `mark`; then [`Input::Marked`].
    Operate {
        /// The page of the [`Input::Operate`].
        page: u32,
        /// Whose frame.
        at: Rank,
        /// Whether the page is not marked yet.
        mark: bool,
    },
    /// Forget the claims of these pages that are kept here: the pages are free.
    ForgetClaims(Pages),
    /// Send what was written here to the ranks that compare
    /// ([`Races::send_writes`](crate::races::Races::send_writes)); [`Input::WritesSent`] for each message.
    SendWrites,
    /// Find the data races of the epoch that ends
    /// ([`Races::compare_writes`](crate::races::Races::compare_writes)).
    CompareWrites,
    /// Save what this rank has; then [`Input::Staged`] or [`Input::NotStaged`]. The memory barrier is over,
    /// but no rank leaves the call before all have answered. No further order comes until then: what is
    /// promised meanwhile is in the text of the module `checkpoint`.
    Stage,
    /// All ranks have answered [`Output::Stage`]: whether the checkpoint counts, because all have staged it.
    /// The end of the call follows.
    Committed(bool),
    /// The collective call is over.
    Done(Outcome),
}

impl Output {
    /// Whether it sends something that leaves with the transport's next flush.
    pub fn is_message(&self) -> bool {
        matches!(
            self,
            Output::Control(..)
                | Output::Token(..)
                | Output::Sync(..)
                | Output::Reduce(..)
                | Output::Parcel { .. }
        )
    }
}

/// How a collective call ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// As asked.
    Done,
    /// Memory was allocated.
    Allocated(Pages),
    /// Objects of synchronisation were made; this is the number of the first.
    Made(u32),
    /// They are not destroyed, at any rank: a thread uses one.
    /// [`Node::take_reduced`](super::Node::take_reduced) has this outcome, for it is that of no memory
    /// barrier.
    InUse(InUse),
    /// The result of a reduction.
    Reduced(Vec<u64>),
    /// There are no numbers for that many.
    TooManyObjects(u32),
    /// There was no room for it, at any rank.
    OutOfSpace(OutOfSpace),
    /// Ranks came for different things. Nothing was done, and nothing can be done any more.
    Mismatch([Attendance; 2]),
}

/// An object that a thread of a rank uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InUse {
    /// Whose thread.
    pub rank: Rank,
    /// Which object.
    pub object: u32,
    /// How.
    pub relation: Relation,
}

/// What a peer did that no correct peer does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Who.
    pub rank: Rank,
    /// What.
    pub what: &'static str,
}

impl std::fmt::Display for Violation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} broke the protocol: {}", self.rank, self.what)
    }
}

impl std::error::Error for Violation {}
