//! What two ranks do together, again and again, until one of them is gone: each function is one round.

use scash_comm::{Atomic, Error, Result, Rmw};
use scash_mp::{Communicator, Op, Request, Strided, Window};

/// Bytes of a rank's part of the window.
pub(crate) const WINDOW: usize = 4 << 20;
/// The handler of active messages.
pub(crate) const HANDLER: u16 = 0;
/// What is sent: as long as the longest message, and longer than anything that is pushed.
static BYTES: [u8; LONG] = [7; LONG];
const LONG: usize = 1200 << 10;
/// What travels at once, is pushed, and is offered.
const LENS: [usize; 3] = [8, 40 << 10, LONG];

/// One of two ranks.
#[derive(Clone, Copy)]
pub(crate) struct Side<'a> {
    pub(crate) job: &'a Communicator,
    pub(crate) window: &'a Window,
    pub(crate) peer: u32,
    /// Of the pair and the operation.
    pub(crate) tag: u64,
    pub(crate) round: usize,
}

impl Side<'_> {
    /// In turns, one side begins.
    fn is_first(self) -> bool {
        (self.job.rank() < self.peer) == self.round.is_multiple_of(2)
    }

    fn begin(self, len: usize) -> Result<Request> {
        // SAFETY: the bytes are there for ever, and nobody changes them.
        unsafe { self.job.start_send(self.peer, self.tag, BYTES.as_ptr(), len) }
    }

    fn await_one(self) -> Result<Request> {
        self.job.start_receive_owned(Some(self.peer), Some(self.tag))
    }

    fn take(self) -> Result<usize> {
        Ok(self.job.receive_owned(Some(self.peer), Some(self.tag))?.bytes.len())
    }
}

/// An operation, and its name.
pub(crate) type Named = (&'static str, fn(Side<'_>) -> Result<()>);

pub(crate) const ALL: [Named; 14] = [
    ("eager, posted", |side| posted(side, LENS[0])),
    ("middling, posted", |side| posted(side, LENS[1])),
    ("long, posted", |side| posted(side, LENS[2])),
    ("registered", registered),
    ("unexpected", unexpected),
    ("probed", probed),
    ("awaited", awaited),
    ("from any", from_any),
    ("taken back", taken_back),
    ("many", many),
    ("window", window),
    ("put and forgotten", put_and_forgotten),
    ("active", active),
    ("sent and forgotten", sent_and_forgotten),
];

fn posted(side: Side<'_>, len: usize) -> Result<()> {
    let receive = side.await_one()?;
    let send = side.begin(len)?;
    // Both, whatever comes of the first.
    let received = side.job.wait(receive);
    side.job.wait(send)?;
    received.map(drop)
}

fn registered(side: Side<'_>) -> Result<()> {
    let mut buffer = side.job.allocate(LONG)?;
    if side.is_first() {
        return side.job.send(side.peer, side.tag, &buffer);
    }
    side.job.receive(Some(side.peer), Some(side.tag), &mut buffer).map(drop)
}

fn unexpected(side: Side<'_>) -> Result<()> {
    if side.is_first() {
        let sends: Vec<Request> = LENS.into_iter().map(|len| side.begin(len)).collect::<Result<_>>()?;
        return side.job.wait_all(sends).map(drop);
    }
    for len in LENS {
        assert_eq!(side.take()?, len);
    }
    Ok(())
}

fn probed(side: Side<'_>) -> Result<()> {
    if side.is_first() {
        return side.job.wait(side.begin(LENS[side.round % 3])?).map(drop);
    }
    while side.job.probe(Some(side.peer), Some(side.tag))?.is_none() {
        std::thread::yield_now();
    }
    side.take().map(drop)
}

fn awaited(side: Side<'_>) -> Result<()> {
    if side.is_first() {
        return side.job.wait(side.begin(LENS[side.round % 3])?).map(drop);
    }
    side.job.wait_for_message(Some(side.peer), Some(side.tag))?;
    side.take().map(drop)
}

fn from_any(side: Side<'_>) -> Result<()> {
    if side.is_first() {
        return side.job.wait(side.begin(LENS[side.round % 3])?).map(drop);
    }
    // Nobody else uses this tag. Of a rank that has gone before, only the first of such receives tells.
    let any = side.job.start_receive_owned(None, Some(side.tag))?;
    side.probe_peer()?;
    side.job.wait(any).map(drop)
}

impl Side<'_> {
    /// An error if the peer is gone.
    fn probe_peer(self) -> Result<()> {
        self.job.probe(Some(self.peer), Some(u64::MAX)).map(drop)
    }
}

fn taken_back(side: Side<'_>) -> Result<()> {
    let receive = side.job.start_receive_owned(Some(side.peer), Some(side.tag))?;
    let send = side.begin(LONG)?;
    for request in [send, receive] {
        if let Err(request) = side.job.cancel(request) {
            side.job.wait(request)?;
        }
    }
    Ok(())
}

fn many(side: Side<'_>) -> Result<()> {
    let mut all = Vec::new();
    for len in LENS {
        all.push(side.await_one()?);
        all.push(side.begin(len)?);
    }
    let job = side.job;
    let mut failed = Ok(());
    while !all.is_empty() {
        let over = match side.round % 5 {
            0 => job.wait_any(&mut all).into_iter().collect(),
            1 => job.wait_some(&mut all),
            2 => job.test_any(&mut all).into_iter().collect(),
            3 => job.test_some(&mut all),
            _ => job.test_all(&mut all).into_iter().flatten().map(|outcome| (0, outcome)).collect(),
        };
        for (_, outcome) in over {
            failed = failed.and(outcome.map(drop));
        }
    }
    failed
}

fn window(side: Side<'_>) -> Result<()> {
    let Side { job, window, peer, .. } = side;
    let mut into = vec![0; LONG];
    job.put(window, peer, 4096, &BYTES[..LENS[1]])?;
    job.get(window, peer, 4096, &mut into)?;
    let blocks = Strided { count: 200, len: 16, here: 32, there: 64 };
    job.wait(job.start_put_strided(window, peer, 4096, &BYTES, blocks)?)?;
    job.get_strided(window, peer, 4096, &mut into, blocks)?;
    let target = &mut into[..];
    job.scope(|scope| scope.get(window, peer, 4096, target).map(drop))?;
    job.atomic(window, peer, 8, Atomic::U64(Rmw::Add(1))).map(drop)
}

fn put_and_forgotten(side: Side<'_>) -> Result<()> {
    for len in LENS {
        side.job.put_and_forget(side.window, side.peer, WINDOW / 2, &BYTES[..len])?;
    }
    side.job.fence(Some(side.peer))
}

fn active(side: Side<'_>) -> Result<()> {
    for len in [8, 4096, 30_000] {
        side.job.call(side.peer, HANDLER, &BYTES[..len])?;
    }
    side.job.fence(Some(side.peer))
}

fn sent_and_forgotten(side: Side<'_>) -> Result<()> {
    if side.is_first() {
        for len in LENS {
            side.job.send_and_forget(side.peer, side.tag, &BYTES[..len])?;
        }
        return side.job.fence(Some(side.peer));
    }
    LENS.into_iter().try_for_each(|_| side.take().map(drop))
}

/// One round of all collective operations, each of some length: of all ranks.
pub(crate) fn collective(job: &Communicator, round: usize) -> Result<()> {
    let (size, count) = (job.size() as usize, [1, 700, 40_000][round % 3]);
    let (mine, mut all) = (vec![1u64; count * size], vec![0u64; count * size]);
    let counts = vec![count; size];
    job.barrier()?;
    job.broadcast(0, &mut all)?;
    job.reduce(1, Op::Sum, &mine, &mut all)?;
    job.all_reduce(Op::Sum, &mine, &mut all)?;
    job.gather(2, &mine[..count], &mut all)?;
    job.all_gather(&mine[..count], &mut all)?;
    job.all_gather_v(&mine[..count], &counts, &mut all)?;
    job.all_to_all(&mine, &mut all)?;
    job.reduce_scatter(Op::Sum, &mine, &counts, &mut all[..count])?;
    at_once(job, round)?;
    let window = job.window(4096)?;
    job.put(&window, (job.rank() + 1) % job.size(), 0, &[1; 8])?;
    job.close_window(window)
}

/// Some collective operations at the same time.
fn at_once(job: &Communicator, round: usize) -> Result<()> {
    use scash_mp::{Collective, Element, Reduction};
    let size = job.size() as usize;
    let sum = Reduction::new(Element::U64, Op::Sum).ok_or_else(|| Error::Invalid("no sum".to_owned()))?;
    let len = [8, 4096, LONG][round % 3] / 8 * 8;
    let collectives = [
        Collective::Barrier,
        Collective::Broadcast { root: 1, len },
        Collective::AllReduce { count: len / 8, reduction: sum },
        Collective::AllGather { lens: vec![len; size] },
        Collective::AllToAll { to: vec![len; size], from: vec![len; size] },
        Collective::ReduceScatter { counts: vec![len / 8; size], reduction: sum },
    ];
    let (input, mut outputs) = (vec![1u8; len * size], [(); 6].map(|()| vec![0u8; len * size]));
    let mut requests = Vec::new();
    for (collective, output) in collectives.iter().zip(&mut outputs) {
        // SAFETY: the memory is as long as any of them says, and is not used until they are over.
        requests.push(unsafe { job.start(collective, input.as_ptr(), output.as_mut_ptr()) }?);
    }
    job.wait_all(requests).map(drop)
}
