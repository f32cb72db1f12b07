//! The run: ranks, network and oracle, and the scheduler that decides whose step is next.

mod delivery;
mod machine;
mod orders;
mod setup;
mod survival;
mod thread;

use super::frame::Frames;
use super::liar::Liar;
use super::net::{Net, Put};
use super::program::{Interval, Program};
use super::report::{self, Report};
use super::rng::{Rng, mix};
use scash_comm::Coming;
use scash_proto::diff::PageBytes;
use scash_proto::interpreter::{Answer, Interpreter};
use scash_proto::races::Races;
use scash_proto::wire::Kind;
use scash_proto::{Config, Node, Output, PAGE_SIZE, Pages, Rank, Sharing};
pub use setup::Setup;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use survival::{Life, Saver, Survival};
use thread::Thread;

/// Bytes of a rank's log of traces: much less than some epochs need.
const LOG: usize = 60_000;
/// Steps after which a run is given up.
const TOO_LONG: u64 = 20_000_000;

/// Why a run ended before its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure(pub String);

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Failure {}

type Result<T> = std::result::Result<T, Failure>;

/// Something that can take a step.
#[derive(Clone, Copy, Debug)]
enum Task {
    /// An application thread.
    Thread(usize, usize),
    /// A rank's driver, which has orders or puts to carry out.
    Driver(usize),
    /// A pair with something on its way.
    Channel(usize, usize),
}

/// How a step went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    /// Something happened, and more may.
    Moved,
    /// Nothing can happen now.
    Blocked,
    /// There is nothing left to do.
    Idle,
}

/// What the threads of a program have told each other, beside memory.
#[derive(Clone, Default)]
struct Happened {
    /// Events that have happened.
    events: BTreeSet<u32>,
    /// Objects that one rank has made: their numbers, by what the program calls them.
    names: BTreeMap<u32, u32>,
}

impl Happened {
    /// The number of an object.
    fn number(&self, name: u32) -> u32 {
        self.names.get(&name).copied().unwrap_or(name)
    }
}

/// One rank.
struct RankState {
    node: Node,
    /// Is there, but while it carries out an order.
    interpreter: Option<Box<Interpreter>>,
    frames: Frames,
    /// What its interpreter saw when it looked at a frame last.
    seen: Box<PageBytes>,
    /// The search for data races, if there is one.
    races: Option<Races>,
    threads: Vec<Thread>,
    /// Threads that have not come to the barrier.
    running: usize,
    /// Puts that are to be carried out before further orders (memory that is shared): receiver, page, diff.
    puts: VecDeque<(u32, u32, Vec<u8>)>,
    /// Pages of this rank with words that others operate on, with the interval in which one did so last.
    marks: BTreeMap<u32, u32>,
    /// Intervals that are to be closed, with the rank to which puts may be on their way then,
    closing: VecDeque<Option<Rank>>,
    /// when all has landed that was put to these ranks.
    closing_waits_for: Vec<Rank>,
    /// Its word on the board: what it came for last.
    coming: Option<Coming>,
    /// Threads that got what they waited for, or did not.
    answers: BTreeMap<u64, Answer>,
    /// Gets, by page, that have read and not yet stored.
    copying: Vec<u8>,
    /// Whether the driver is among the tasks.
    scheduled: bool,
    /// Barriers whose end the driver has carried out. The node is ahead of it.
    interval: u32,
    finished: bool,
    /// Whether it goes on, takes a checkpoint, is dead.
    life: Life,
    /// What takes its checkpoints, if ranks can come back.
    saver: Option<Saver>,
    /// It has come back, and the ranks have not yet met since.
    resumes: bool,
}

/// A simulated job.
pub struct World<P> {
    setup: Setup,
    program: P,
    ranks: Vec<RankState>,
    net: Net,
    /// Who claimed which pages.
    claims: BTreeMap<u32, Rank>,
    happened: Happened,
    oracle: Vec<u8>,
    tasks: Vec<Task>,
    rng: Rng,
    /// Decides what goes on in the middle of orders.
    tears: Rng,
    /// Intervals that some rank has not left yet, or may come back to; and the number of the first.
    intervals: VecDeque<Interval>,
    first_interval: u32,
    /// Intervals that some rank has begun.
    begun: BTreeSet<u32>,
    report: Report,
    /// What a job has whose ranks can come back.
    survival: Option<Box<Survival>>,
}

impl<P: Program> World<P> {
    /// A job at its beginning.
    pub fn new(setup: Setup, program: P) -> Self {
        let oracle = vec![0; setup.pages as usize * PAGE_SIZE];
        let deaths = setup.deaths;
        let survival = deaths.map(|deaths| Box::new(Survival::new(setup.seed, setup.size, &oracle, deaths)));
        let mut world = World {
            program,
            ranks: Vec::new(),
            net: Net::default(),
            claims: BTreeMap::new(),
            happened: Happened::default(),
            oracle,
            tasks: Vec::new(),
            rng: Rng::part(setup.seed, 1),
            tears: Rng::part(setup.seed, 8),
            intervals: VecDeque::new(),
            first_interval: 0,
            begun: BTreeSet::new(),
            report: Report { sent: vec![0; setup.size as usize], ..Report::default() },
            survival,
            setup,
        };
        world.ranks = (0..setup.size).map(|rank| world.new_rank(rank)).collect();
        world
    }

    /// A rank at the beginning of a job.
    fn new_rank(&self, r: u32) -> RankState {
        let setup = &self.setup;
        RankState {
            node: Node::new(Config {
                rank: Rank(r),
                size: setup.size,
                base: setup.base,
                pages: setup.pages,
                puts_at_once: setup.puts_at_once,
                transfer: setup.transfer,
                fetch_first: setup.fetch_first,
                fetch_most: setup.fetch_most,
                predict: setup.predict,
                cache: setup.cache,
                eviction: setup.eviction,
                migrate_after: setup.migrate_after,
                renewals: setup.renewals,
                exact_after: setup.exact_after,
                bring: setup.bring,
                ahead: setup.ahead,
                watch_from: setup.watch_from,
                races: setup.races,
                most_objects: u32::MAX,
                sharing: setup.sharing,
                board: setup.board,
                replicas: setup.deaths.map_or(0, |deaths| deaths.replicas.max(1)),
            }),
            interpreter: Some(Box::new(Interpreter::new(setup.size))),
            frames: Frames::new(setup.pages),
            seen: Box::new([0; PAGE_SIZE]),
            races: setup.races.then(|| Races::new(LOG)),
            threads: Vec::new(),
            running: 0,
            puts: VecDeque::new(),
            marks: BTreeMap::new(),
            closing: VecDeque::new(),
            closing_waits_for: Vec::new(),
            coming: None,
            answers: BTreeMap::new(),
            copying: vec![0; setup.pages as usize],
            scheduled: false,
            interval: 0,
            finished: false,
            life: Life::Goes,
            saver: self.survival.as_ref().map(|survival| survival.saver(r as usize, setup.pages)),
            resumes: false,
        }
    }

    /// Runs the program to its end.
    pub fn run(mut self) -> Result<Report> {
        for rank in 0..self.ranks.len() {
            self.begin_interval(rank);
        }
        let mut vain = 0usize;
        loop {
            if self.fate()? {
                vain = 0;
                continue;
            }
            if self.tasks.is_empty() {
                break;
            }
            let n = u32::try_from(self.tasks.len()).unwrap_or(u32::MAX);
            let mut at = self.rng.below(n) as usize;
            if vain > 4 * self.tasks.len() + 64 {
                at = match self.first_able() {
                    Err(_) if self.hastens() => continue,
                    first => first?,
                };
            } else {
                let slowness = self.slowness(self.tasks[at]);
                if slowness > 1 && self.rng.below(slowness) > 0 {
                    vain += 1;
                    continue;
                }
            }
            vain = if self.step(at)? == Progress::Blocked { vain + 1 } else { 0 };
            if self.report.steps > TOO_LONG {
                return Err(self.failure("the program does not end"));
            }
        }
        if let Some(r) = self.ranks.iter().position(|r| !r.finished) {
            return Err(self.failure(&format!("rank {r} waits for something that will never come")));
        }
        self.report.survived = self.survival.map(|survival| survival.counts).unwrap_or_default();
        Ok(self.report)
    }

    /// Lets a task step, again and again if steps come in bursts.
    fn step(&mut self, at: usize) -> Result<Progress> {
        loop {
            self.report.steps += 1;
            let step = match self.tasks[at] {
                Task::Thread(rank, _) | Task::Channel(_, rank) if self.is_dead(rank) => Progress::Idle,
                Task::Thread(rank, thread) => self.step_thread(rank, thread)?,
                Task::Driver(rank) => self.step_driver(rank)?,
                Task::Channel(from, to) => self.step_channel(from, to)?,
            };
            if step == Progress::Idle {
                self.tasks.swap_remove(at);
            }
            if step != Progress::Moved || !self.rng.chance(self.setup.burst) || self.is_fated() {
                return Ok(step);
            }
        }
    }

    /// The first task that can step. Tries all: where none can, the job is stuck.
    fn first_able(&mut self) -> Result<usize> {
        for at in 0..self.tasks.len() {
            if self.is_able(self.tasks[at]) {
                return Ok(at);
            }
        }
        Err(self.failure("nothing can go on"))
    }

    fn is_able(&self, task: Task) -> bool {
        match task {
            Task::Thread(rank, thread) => self.thread_is_able(rank, thread),
            Task::Driver(rank) => match (self.ranks[rank].puts.front(), self.life_is_able(rank)) {
                (Some(&(to, page, _)), _) => {
                    self.reaches(rank, to as usize) && self.may_land(to as usize, page)
                }
                (None, Some(is_able)) => is_able,
                (None, None) => self.may_close(rank).unwrap_or_else(|| self.may_agree(rank)),
            },
            Task::Channel(from, to) => {
                self.net.is_empty(number(from), number(to))
                    || self.may_land_next(from, to)
                    || self.may_arrive(from, to)
            }
        }
    }

    /// How many times slower than others a task is.
    fn slowness(&self, task: Task) -> u32 {
        let by_itself = if self.is_slow(task) { self.setup.slowness } else { 1 };
        by_itself.max(self.slowness_of_link(task))
    }

    fn is_slow(&self, task: Task) -> bool {
        let name = match task {
            Task::Thread(rank, thread) => mix((1 << 60) + ((rank as u64) << 20) + thread as u64),
            Task::Driver(rank) => mix((2 << 60) + rank as u64),
            Task::Channel(from, to) => mix((3 << 60) + ((from as u64) << 20) + to as u64),
        };
        // Who is slow changes in the course of the run.
        let era = self.report.steps >> 12;
        self.setup.slow > 0 && mix(name ^ mix(self.setup.seed ^ era)) % 100 < u64::from(self.setup.slow)
    }

    /// The work of a rank's next interval, or the end of it.
    fn begin_interval(&mut self, rank: usize) {
        let number = self.ranks[rank].interval;
        let at = (number - self.first_interval) as usize;
        if at == self.intervals.len() {
            let Some(next) = self.program.next() else {
                self.ranks[rank].finished = true;
                return;
            };
            self.intervals.push_back(next);
        }
        let interval = &mut self.intervals[at];
        let is_first = self.begun.insert(number);
        if let Some(pages) = interval.zeroed.filter(|_| is_first) {
            let bytes = pages.first as usize * PAGE_SIZE..pages.end() as usize * PAGE_SIZE;
            self.oracle[bytes].fill(0);
        }
        // Ranks that come back do it again.
        let is_kept = self.survival.is_some();
        let work =
            if is_kept { interval.work[rank].clone() } else { std::mem::take(&mut interval.work[rank]) };
        let threads = work.len();
        let me = &mut self.ranks[rank];
        me.threads = work.into_iter().map(Thread::new).collect();
        me.running = threads;
        self.tasks.extend((0..threads).map(|t| Task::Thread(rank, t)));
    }

    /// The interval that a rank is in.
    fn interval(&self, rank: usize) -> &Interval {
        &self.intervals[(self.ranks[rank].interval - self.first_interval) as usize]
    }

    /// Forgets intervals that every rank has left.
    fn forget_intervals(&mut self) {
        let oldest = self.ranks.iter().map(|r| r.interval).min().unwrap_or(0);
        let oldest = self.survival.as_ref().map_or(oldest, |survival| survival.oldest_interval(oldest));
        while self.first_interval < oldest {
            self.begun.remove(&self.first_interval);
            self.intervals.pop_front();
            self.first_interval += 1;
        }
    }

    /// Sees to it that a rank's driver gets its turn.
    fn schedule_driver(&mut self, rank: usize) {
        let me = &mut self.ranks[rank];
        if !std::mem::replace(&mut me.scheduled, true) {
            self.tasks.push(Task::Driver(rank));
        }
    }

    fn send(&mut self, from: usize, to: Rank, kind: Kind, bytes: Vec<u8>) {
        let (from, to) = self.perhaps_leave_early(from, to, kind);
        let (kind, bytes) = self.perhaps_lie(kind, bytes);
        self.report.sent[from] += 1;
        let interval = self.ranks[from].interval;
        if self.is_counted(from, to.0) {
            self.report.period(interval).traffic.message(kind, bytes.len());
        }
        self.trace(|| format!("rank {from} sends {kind:?} ({} bytes) to {to}", bytes.len()));
        if self.net.send(number(from), to.0, kind, bytes) {
            self.tasks.push(Task::Channel(from, to.0 as usize));
        }
    }

    fn perhaps_lie(&mut self, kind: Kind, bytes: Vec<u8>) -> (Kind, Vec<u8>) {
        if self.setup.lies == 0 || self.rng.below(10_000) >= self.setup.lies {
            return (kind, bytes);
        }
        Liar { rng: &mut self.rng, size: self.setup.size, pages: self.setup.pages }.tamper(kind, bytes)
    }

    /// Whether what goes from one rank to the other leaves a host.
    fn is_counted(&self, from: usize, to: u32) -> bool {
        number(from) / self.setup.ranks_a_host != to / self.setup.ranks_a_host
    }

    /// Brings bytes to a peer's frame: over the network, or by the driver as soon as it may.
    fn put(&mut self, from: usize, to: u32, page: u32, diff: Vec<u8>) {
        let interval = self.ranks[from].interval;
        if self.is_counted(from, to) {
            let traffic = &mut self.report.period(interval).traffic;
            traffic.puts += 1;
            traffic.put_bytes += diff.len() as u64;
        }
        self.trace(|| format!("rank {from} puts {} bytes into page {page} of rank {to}", diff.len()));
        if self.setup.puts_at_once {
            self.ranks[from].puts.push_back((to, page, diff));
            self.schedule_driver(from);
        } else if self.net.put(number(from), to, Put { page, diff }) {
            self.tasks.push(Task::Channel(from, to as usize));
        }
    }

    /// The frames that a rank's views show: its own, or those that all share, which the first rank keeps
    /// here.
    fn frames(&mut self, rank: usize) -> &mut Frames {
        let keeper = self.keeper(rank);
        &mut self.ranks[keeper].frames
    }

    fn keeper(&self, rank: usize) -> usize {
        match self.setup.sharing {
            Sharing::Off => rank,
            Sharing::Frames => 0,
        }
    }

    /// Whether bytes for a page may land in a rank's frame now: not while a get of it is half-way.
    fn may_land(&self, to: usize, page: u32) -> bool {
        !self.setup.exclusion || self.ranks[to].copying.get(page as usize).is_none_or(|&n| n == 0)
    }

    /// Whether all puts of a rank to another have landed.
    fn have_landed_at(&self, rank: usize, at: Rank) -> bool {
        let own = self.ranks[rank].puts.iter().any(|&(to, ..)| to == at.0);
        !own && self.net.next_put(number(rank), at.0).is_none()
    }

    /// Whether all has landed that the ends of intervals wait for; `None` if none is under way. What was put
    /// meanwhile counts: the record that is made then names it.
    fn may_close(&self, rank: usize) -> Option<bool> {
        let me = &self.ranks[rank];
        let meanwhile = me.interpreter.as_ref().map_or(&[][..], |interpreter| interpreter.unfenced());
        let next = *me.closing.front()?;
        let mut put_to = me.closing_waits_for.iter().chain(meanwhile).filter(|&&to| Some(to) != next);
        Some(put_to.all(|&to| self.have_landed_at(rank, to)))
    }

    /// Whether all puts of a rank have landed.
    fn have_landed(&self, rank: usize) -> bool {
        self.ranks[rank].puts.is_empty() && self.net.have_landed(number(rank))
    }

    fn trace(&self, what: impl FnOnce() -> String) {
        if self.setup.trace {
            eprintln!("{:>7} {}", self.report.steps, what());
        }
    }

    /// A failure with a picture of where everybody is.
    fn failure(&self, what: &str) -> Failure {
        let mut text = format!("seed {}: {what}\n{:?}\n", self.setup.seed, self.setup);
        for (r, rank) in self.ranks.iter().enumerate().filter(|(_, r)| !r.finished).take(16) {
            let (epoch, meeting) = (rank.interval, rank.node.meeting());
            let running: Vec<_> = rank.threads.iter().map(Thread::describe).collect();
            text += &format!("  rank {r}: interval {epoch}, meeting {meeting}, threads {running:?}\n");
        }
        text += &self.net.describe();
        Failure(text)
    }

    /// A failure about a page, with what those who matter believe of it.
    fn failure_about(&self, what: &str, rank: usize, page: u32) -> Failure {
        let mut who = vec![rank];
        who.extend(self.ranks[rank].node.home(page).map(|h| h.0 as usize).filter(|&h| h != rank));
        let words: Vec<String> = who
            .into_iter()
            .map(|r| {
                let (node, frames) = (&self.ranks[r].node, &self.ranks[r].frames);
                format!(
                    "  rank {r} on page {page}: {} (in force: {:?})\n",
                    node.describe(page),
                    frames.rights(page)
                )
            })
            .collect();
        self.failure(&format!("{what}\n{}", words.concat()))
    }

    /// Notes the counters of a rank that has left a barrier.
    fn count(&mut self, rank: usize, interval: u32) {
        let node = &self.ranks[rank].node;
        let (counters, directory) = (node.counters(), node.directory_entries());
        let period = self.report.period(interval);
        period.counters = report::add(period.counters, counters);
        period.directory += directory;
    }

    /// What the node believes of its pages must be possible.
    fn check_words(&self, rank: usize) -> Result<()> {
        // Who lies may make a rank believe anything.
        if self.setup.lies > 0 {
            return Ok(());
        }
        self.ranks[rank].node.check().map_err(|broken| {
            let what = format!("rank {rank} broke a rule of page words: {}", broken.rule);
            self.failure_about(&what, rank, broken.page)
        })
    }

    /// The rights that the node believes in must be in force. Where homes track pages for leases, they may be
    /// ordered: who asks for that does so at any time, and the page is named as written in any case.
    fn check_rights(&self, rank: usize, pages: Pages) -> Result<()> {
        let me = &self.ranks[rank];
        let may_be_ordered = self.setup.exact_after > 0;
        let is_ordered = |page: u32| {
            let mut node = me.node.clone();
            let mut orders = std::iter::from_fn(|| node.poll_output());
            let access = me.node.access(page);
            orders.any(|order| matches!(order, Output::Protect(run, to) if run.iter().contains(&page) && to == access))
        };
        match pages
            .iter()
            .find(|&p| me.node.access(p) != me.frames.rights(p) && !(may_be_ordered && is_ordered(p)))
        {
            Some(p) => Err(self.failure_about("the node believes in rights that are not in force", rank, p)),
            None => Ok(()),
        }
    }
}

fn number(rank: usize) -> u32 {
    u32::try_from(rank).unwrap_or(u32::MAX)
}
