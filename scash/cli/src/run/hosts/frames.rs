//! What launcher and agent say to each other, as bytes and values. No IO.
//!
//! ```text
//!  0                 4        5
//!  +-----------------+--------+------------- - -
//!  | bytes behind    | kind   | fields …            numbers are little-endian; a string is its length `u32` and its bytes;
//!  | this number     |        |                     a list is its length `u32` and its items
//!  +-----------------+--------+------------- - -
//! ```
//!
//! | kind | from the agent | fields |
//! |---|---|---|
//! | 1 | Hello, its first frame, whose layout no version changes | `"scash agent"`, version of these frames `u32`, version of scash |
//! | 2 | Ready: the program is there, ranks can start | |
//! | 3 | Refused: it cannot start (all of) its ranks | exit status `u8`, why |
//! | 4 | Started | rank `u32`, pid `u32` |
//! | 5 | Report: what a rank said, or how it ended | see [`Report::encode`] |
//! | 6 | Output | 1 for stdout and 2 for stderr `u8`, rank `u32`, the bytes: none when that rank prints no more |
//! | 7 | Done: all ranks have ended and all output is on its way | |
//! | 8 | Alive, now and then | |
//! | 9 | OutOfMemory: the system has killed a process there for want of memory, perhaps the rank whose end is told next | |
//! | 10 | Store: what the store of a rank says, or a copy of it, after Recall | see [`Frame::state`] |
//! | 11 | Ended: no rank of its runs any more, and all stores were told of | |
//! | 12 | Rewound: done, as Rewind said | |
//! | 13 | Committed: rank 0 has told that all ranks have this epoch | epoch `u64` |
//! | 14 | Resumed: rank 0 has told that all ranks go on again | |
//! | 15 | Said: what ranks have said to their user at once | the bytes |
//! | 16 | Piece: bytes of the store of a rank, as Read has asked | rank `u32`, place `u64`, the bytes |
//! | 17 | HasRead: that was all, or enough | rank `u32`, where to go on `u64`: 2^64 - 1 if there is no more |
//! | 18 | Stored: all pieces have been written that came | rank `u32` |
//! | 19 | Kept: so much memory stores take there, after Commit | bytes `u64` |
//! | 20 | Printed: a rank whose end is told next has printed so much | rank `u32`, of stdout `u64`, of stderr `u64` |
//! | 21 | Listens: where the agent's system answers, before Ready | the address, as text |
//! | 22 | Keeps: what it has kept since it lost its launcher, instead of Ready | see [`Keeping`] |
//! | 23 | Served: it has a launcher, which said something so many seconds ago | `u32` |
//! | 24 | Beside: the agent of another host is on the same machine, before Ready | host `u32` |
//!
//! | kind | from the launcher | fields |
//! |---|---|---|
//! | 1 | Start: what to prepare | see [`Assignment`] |
//! | 2 | Go | |
//! | 3 | Decision, for all ranks or for the job page | see [`Decision::encode`] |
//! | 4 | Signal, for all ranks | its number `u8` |
//! | 5 | Taken: so many bytes of output are out | stream `u8`, bytes `u32` |
//! | 6 | Shut: nobody reads that stream any more | stream `u8` |
//! | 7 | Alive, now and then | |
//! | 8 | Program: the next part of the program, as long as parts are left that Start has announced | the bytes |
//! | 9 | Recall: end all ranks; some have been lost | |
//! | 10 | Rewind: make of ranks what they were at an epoch | see [`Frame::rewound`] |
//! | 11 | Again: start all ranks from there | base; how long ago, in nanoseconds, the launcher learnt that a rank was lost, and when all had ended, `u64` each; number of ranks `u32`, and where they run, see [`Layout::encode`]; a list of those that were adopted, each with its host, `u32` each; the new secret |
//! | 12 | Commit: what ranks had printed at this epoch is not taken back any more | epoch `u64` |
//! | 13 | Finish: all ranks have ended for good, unless ranks are recalled | exit status of the job `u8` |
//! | 14 | Empty: make the store of a rank a new one | rank `u32` |
//! | 15 | Read: send what has been written of the store of a rank, some of it | rank `u32`, from `u64`, to `u64` |
//! | 16 | Piece: write this into the store of a rank | rank `u32`, place `u64`, the bytes |
//! | 17 | Store: say when that is done | rank `u32` |
//! | 18 | Farewell: the job is over, or goes on without that host; the last frame | |
//! | 19 | Fail: kill all processes of the job there, as the user wants it (`--inject`) | |
//! | 20 | Fail: kill the agent | |
//! | 21 | Fail: stop all processes of the job there for so long | nanoseconds `u64` |
//! | 22 | Fail: let connections to hosts at these addresses fall silent; to all others if there are none | a list of addresses, as text |
//! | 23 | Had: all ranks have had this epoch, as a host learns that comes back | epoch `u64` |
//!
//! # Incarnations
//! No frame has the number of an incarnation: the order of the pipe tells. What an agent sends before Ended
//! is of ranks that have ended, and it sends nothing of ranks until Again has come, which the launcher sends
//! when all agents have said Ended (and then Rewound). So what comes before Ended belongs to the incarnation
//! before, and what comes after it to the one that begins. The other way round, decisions that are sent
//! before Again are those of the launcher's former relay and reach the agent's former one. Output is of no
//! incarnation: what is sent of it is never taken back.

use super::assignment::Assignment;
use super::fields::{Fields, Frame};
use crate::run::output::{Lengths, Stream};
use crate::run::recovery::{Rewound, StoreState};
use nix::sys::signal::Signal;
use scash_comm::{Secret, SecretBytes};
use scash_ft::{Base, Epoch};
use scash_join::boot::{Decision, Layout, Report};
use std::net::{IpAddr, SocketAddr};
use std::ops::Range;
use std::time::Duration;

/// The version of these frames.
const VERSION: u32 = 16;
/// What an agent calls itself, so that it is not taken for something else that prints.
const NAME: &str = "scash agent";
/// Longest frame of an agent: a packet of a boot line, or [`MOST_OUTPUT`].
pub(super) const FROM_AGENT: usize = 128 << 10;
/// Longest frame of the launcher: the arguments and the environment of a program.
pub(super) const FROM_LAUNCHER: usize = 8 << 20;
/// Most bytes of output in a frame.
pub(super) const MOST_OUTPUT: usize = 32 << 10;
const _: () = assert!(MOST_OUTPUT + 16 < FROM_AGENT);
/// Most bytes of a store in a frame.
pub(super) const MOST_PIECE: usize = 64 << 10;
const _: () = assert!(MOST_PIECE + 32 < FROM_AGENT);
/// Most bytes of the program in a frame.
pub(super) const MOST_PROGRAM: usize = 256 << 10;
const _: () = assert!(MOST_PROGRAM + 16 < FROM_LAUNCHER);

/// What an agent says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Up {
    Hello { frames: u32, version: String },
    Ready,
    Refused { status: u8, why: String },
    Started { rank: u32, pid: u32 },
    Report(Report),
    Output { stream: Stream, rank: u32, bytes: Vec<u8> },
    Done,
    Alive,
    OutOfMemory,
    Store(StoreState),
    Ended,
    Rewound,
    Committed(Epoch),
    Resumed,
    Said(Vec<u8>),
    Piece(StoreChunk),
    HasRead { rank: u32, next: Option<u64> },
    Stored(u32),
    Kept(u64),
    Printed { rank: u32, lengths: Lengths },
    Listens(SocketAddr),
    Keeps(Box<Keeping>),
    Served { seconds: u32 },
    Beside(u32),
}

/// What an agent has kept since it lost its launcher.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Keeping {
    /// What its ranks were started from last.
    pub(super) base: Base,
    /// If a launcher has said that all ranks have ended for good: the exit status of the job.
    pub(super) finished: Option<u8>,
    /// Whether ranks were ended since then, to be started again.
    pub(super) is_recalled: bool,
    /// The newest epoch of which a launcher or rank 0 has said that all ranks have it.
    pub(super) committed: Epoch,
    /// Where all ranks ran then.
    pub(super) layout: Layout,
    /// Ranks that others had adopted, and the host of each.
    pub(super) adopted: Vec<(u32, u32)>,
    /// Ranks that have printed here or have come here, and how much of what they have printed is out.
    pub(super) printed: Vec<(u32, Lengths)>,
}

/// Bytes of the store of a rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct StoreChunk {
    pub(super) rank: u32,
    pub(super) at: u64,
    pub(super) bytes: Vec<u8>,
}

/// What the launcher says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Down {
    Start(Box<Assignment>),
    Go,
    Decision(Decision),
    Signal(Signal),
    Taken { stream: Stream, bytes: u32 },
    Shut(Stream),
    Alive,
    Program(Vec<u8>),
    Recall,
    Rewind(Vec<Rewound>),
    Again(Again),
    Commit(Epoch),
    Finish(u8),
    Empty(u32),
    Read { rank: u32, range: Range<u64> },
    Piece(StoreChunk),
    Store(u32),
    Farewell,
    Fail(HostFailure),
    Had(Epoch),
}

/// What goes wrong on a host because the user wants it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum HostFailure {
    /// All processes die.
    Kill,
    /// The agent dies.
    KillAgent,
    /// All processes stop for so long.
    Stop(Duration),
    /// Connections to hosts at these addresses fall silent, or to all others if none is named.
    Cut(Vec<IpAddr>),
}

/// How all ranks are started again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Again {
    pub(super) base: Base,
    /// How long ago the launcher learnt that a rank was lost, and when all had ended. Clocks of hosts differ,
    /// and what they call a while does not.
    pub(super) ago: [Duration; 2],
    /// What ranks know of this incarnation.
    pub(super) secret: Secret,
    /// Where they run now.
    pub(super) layout: Layout,
    /// Those that do not run on their own hosts, which were lost, and the host of each: for the next
    /// launcher.
    pub(super) adopted: Vec<(u32, u32)>,
}

/// The greeting of this version's agent.
pub(super) fn hello() -> Up {
    Up::Hello { frames: VERSION, version: env!("CARGO_PKG_VERSION").to_owned() }
}

/// Whether the agent of that greeting and this launcher are of one version; if not, how they differ.
pub(super) fn check_hello(frames: u32, version: &str) -> Result<(), String> {
    let ours = env!("CARGO_PKG_VERSION");
    if (frames, version) == (VERSION, ours) {
        return Ok(());
    }
    Err(format!(
        "its scash is version {version} (frames {frames}), and this one {ours} (frames {VERSION}): install the same on all hosts, or \
         say where it is with --agent PATH"
    ))
}

impl Up {
    pub(super) fn encode(&self) -> Vec<u8> {
        match self {
            Up::Hello { frames, version } => Frame::new(1).text(NAME).number(*frames).text(version),
            Up::Ready => Frame::new(2),
            Up::Refused { status, why } => Frame::new(3).byte(*status).text(why),
            Up::Started { rank, pid } => Frame::new(4).number(*rank).number(*pid),
            Up::Report(report) => Frame::new(5).rest(&report.encode()),
            Up::Output { stream, rank, bytes } => Frame::new(6).byte(*stream as u8).number(*rank).rest(bytes),
            Up::Done => Frame::new(7),
            Up::Alive => Frame::new(8),
            Up::OutOfMemory => Frame::new(9),
            Up::Store(state) => Frame::new(10).state(state),
            Up::Ended => Frame::new(11),
            Up::Rewound => Frame::new(12),
            Up::Committed(epoch) => Frame::new(13).long(epoch.0),
            Up::Resumed => Frame::new(14),
            Up::Said(bytes) => Frame::new(15).rest(bytes),
            Up::Piece(piece) => Frame::new(16).piece(piece),
            Up::HasRead { rank, next } => Frame::new(17).number(*rank).long(next.unwrap_or(u64::MAX)),
            Up::Stored(rank) => Frame::new(18).number(*rank),
            Up::Kept(bytes) => Frame::new(19).long(*bytes),
            Up::Listens(address) => Frame::new(21).text(&address.to_string()),
            Up::Printed { rank, lengths } => Frame::new(20).number(*rank).long(lengths[0]).long(lengths[1]),
            Up::Keeps(keeping) => Frame::new(22).keeping(keeping),
            Up::Served { seconds } => Frame::new(23).number(*seconds),
            Up::Beside(host) => Frame::new(24).number(*host),
        }
        .finish()
    }

    /// Reads a frame behind its length.
    pub(super) fn decode(frame: &[u8]) -> Result<Up, String> {
        let mut fields = Fields::of(frame);
        let up = match fields.byte()? {
            1 if fields.text()? == NAME => Up::Hello { frames: fields.number()?, version: fields.text()? },
            1 => return Err("a greeting of something else".to_owned()),
            2 => Up::Ready,
            3 => Up::Refused { status: fields.byte()?, why: fields.text()? },
            4 => Up::Started { rank: fields.number()?, pid: fields.number()? },
            5 => Up::Report(Report::decode(&fields.rest())?),
            6 => Up::Output { stream: fields.stream()?, rank: fields.number()?, bytes: fields.rest() },
            7 => Up::Done,
            8 => Up::Alive,
            9 => Up::OutOfMemory,
            10 => Up::Store(fields.state()?),
            11 => Up::Ended,
            12 => Up::Rewound,
            13 => Up::Committed(Epoch(fields.long()?)),
            14 => Up::Resumed,
            15 => Up::Said(fields.rest()),
            16 => Up::Piece(fields.piece()?),
            17 => {
                let (rank, next) = (fields.number()?, fields.long()?);
                Up::HasRead { rank, next: Some(next).filter(|next| *next < u64::MAX) }
            }
            18 => Up::Stored(fields.number()?),
            19 => Up::Kept(fields.long()?),
            20 => Up::Printed { rank: fields.number()?, lengths: [fields.long()?, fields.long()?] },
            21 => {
                let text = fields.text()?;
                Up::Listens(text.parse().map_err(|_| format!("{text:?} is no address"))?)
            }
            22 => Up::Keeps(Box::new(fields.keeping()?)),
            23 => Up::Served { seconds: fields.number()? },
            24 => Up::Beside(fields.number()?),
            kind => return Err(format!("a frame of kind {kind}")),
        };
        // Newer versions may say more in their greeting; they are refused by name.
        if matches!(up, Up::Hello { .. }) { Ok(up) } else { fields.end().map(|()| up) }
    }
}

impl Down {
    pub(super) fn encode(&self) -> Vec<u8> {
        match self {
            Down::Start(assignment) => assignment.encode(Frame::new(1)),
            Down::Go => Frame::new(2),
            Down::Decision(decision) => Frame::new(3).rest(&decision.encode()),
            Down::Signal(signal) => {
                Frame::new(4).byte(u8::try_from(*signal as i32).expect("signals are small"))
            }
            Down::Taken { stream, bytes } => Frame::new(5).byte(*stream as u8).number(*bytes),
            Down::Shut(stream) => Frame::new(6).byte(*stream as u8),
            Down::Alive => Frame::new(7),
            Down::Program(bytes) => Frame::new(8).rest(bytes),
            Down::Recall => Frame::new(9),
            Down::Rewind(all) => Frame::new(10).rewound(all),
            Down::Again(Again { base, ago, secret, layout, adopted }) => {
                let frame = Frame::new(11).base(*base).time(ago[0]).time(ago[1]);
                frame.layout(layout).adopted(adopted).secret(secret)
            }
            Down::Commit(epoch) => Frame::new(12).long(epoch.0),
            Down::Had(epoch) => Frame::new(23).long(epoch.0),
            Down::Finish(status) => Frame::new(13).byte(*status),
            Down::Empty(rank) => Frame::new(14).number(*rank),
            Down::Read { rank, range } => Frame::new(15).number(*rank).long(range.start).long(range.end),
            Down::Piece(piece) => Frame::new(16).piece(piece),
            Down::Store(rank) => Frame::new(17).number(*rank),
            Down::Farewell => Frame::new(18),
            Down::Fail(HostFailure::Kill) => Frame::new(19),
            Down::Fail(HostFailure::KillAgent) => Frame::new(20),
            Down::Fail(HostFailure::Stop(time)) => Frame::new(21).time(*time),
            Down::Fail(HostFailure::Cut(from)) => Frame::new(22).addresses(from),
        }
        .finish()
    }

    /// Reads a frame behind its length.
    pub(super) fn decode(frame: &[u8]) -> Result<Down, String> {
        let mut fields = Fields::of(frame);
        let down = match fields.byte()? {
            1 => Down::Start(Box::new(Assignment::decode(&mut fields)?)),
            2 => Down::Go,
            3 => Down::Decision(Decision::decode(&fields.rest())?),
            4 => {
                let number = fields.byte()?;
                let signal = Signal::try_from(i32::from(number));
                Down::Signal(signal.map_err(|_| format!("signal {number}, which there is not"))?)
            }
            5 => Down::Taken { stream: fields.stream()?, bytes: fields.number()? },
            6 => Down::Shut(fields.stream()?),
            7 => Down::Alive,
            8 => Down::Program(fields.rest()),
            9 => Down::Recall,
            10 => Down::Rewind(fields.rewound()?),
            11 => {
                let base = fields.base()?;
                let ago = [fields.time()?, fields.time()?];
                let layout = fields.layout()?;
                let adopted = fields.adopted(&layout)?;
                Down::Again(Again { base, ago, layout, adopted, secret: fields.secret()? })
            }
            12 => Down::Commit(Epoch(fields.long()?)),
            23 => Down::Had(Epoch(fields.long()?)),
            13 => Down::Finish(fields.byte()?),
            14 => Down::Empty(fields.number()?),
            15 => Down::Read { rank: fields.number()?, range: fields.long()?..fields.long()? },
            16 => Down::Piece(fields.piece()?),
            17 => Down::Store(fields.number()?),
            18 => Down::Farewell,
            19 => Down::Fail(HostFailure::Kill),
            20 => Down::Fail(HostFailure::KillAgent),
            21 => Down::Fail(HostFailure::Stop(fields.time()?)),
            22 => Down::Fail(HostFailure::Cut(fields.addresses()?)),
            kind => return Err(format!("a frame of kind {kind}")),
        };
        fields.end().map(|()| down)
    }
}

/// Cuts what comes through a pipe into frames.
#[derive(Debug)]
pub(super) struct Cutter {
    bytes: SecretBytes,
    /// Bytes at the front that were returned already.
    done: usize,
    longest: usize,
}

impl Cutter {
    /// One that takes frames of at most `longest` bytes.
    pub(super) fn new(longest: usize) -> Cutter {
        Cutter { bytes: SecretBytes::default(), done: 0, longest }
    }

    /// Takes what has come, which is wiped where it was: one of the frames has the job's secret.
    pub(super) fn push(&mut self, bytes: &mut [u8]) {
        self.forget();
        self.bytes.push(bytes);
    }

    /// Forgets the frames that were returned.
    pub(super) fn forget(&mut self) {
        self.bytes.take(std::mem::take(&mut self.done));
    }

    /// The next whole frame behind its length.
    pub(super) fn next(&mut self) -> Result<Option<&[u8]>, String> {
        let left = &self.bytes.left()[self.done..];
        let Some((length, frame)) = left.split_first_chunk() else { return Ok(None) };
        let length = u32::from_le_bytes(*length) as usize;
        if length > self.longest {
            let shown: Vec<u8> = left.iter().copied().take(60).collect();
            return Err(format!("it begins with {:?}", String::from_utf8_lossy(&shown)));
        }
        let Some(frame) = frame.get(..length) else { return Ok(None) };
        self.done += 4 + length;
        Ok(Some(frame))
    }
}

#[cfg(test)]
mod tests;
