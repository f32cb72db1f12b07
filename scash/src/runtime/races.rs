//! Looking for data races (`SCASH_RACES`): what the protocol's search needs of a real rank, and what is told
//! of what it finds.
//!
//! Costs nothing when it is off: then there is no [`Search`].

mod source_lines;

use crate::config::RaceSetting;
use crate::error::Result;
use crate::fault::{PAGE, Region};
use crate::runtime::context::RankContext;
use crate::runtime::frames;
use scash_comm::say::say;
use scash_proto::Rank;
use scash_proto::diff::{Changes, PageBytes};
use scash_proto::heap::RESERVED;
use scash_proto::node::{Input, Node};
use scash_proto::races::{Change, Race, Races, WriteTraces, Writer};
use scash_proto::wire::Kind;
use source_lines::SourceLines;
use std::collections::{BTreeMap, BTreeSet};

/// Bytes set aside for what is noted in faults between two calls.
const LOG: usize = 64 << 20;
/// Places that one rank tells.
const MOST_TOLD: usize = 20;
/// Exit status of a rank that found a race and is to end with it (`EX_DATAERR`).
const EXIT_RACE: i32 = 65;
/// Bits of a site that say in which epoch it was.
const EPOCH_BITS: u32 = 16;

/// The search of one rank.
#[derive(Debug)]
pub(crate) struct Search {
    races: Races,
    /// Of each page, the instruction that faulted last to write it, and the epoch's low bits; 0: none.
    sites: Vec<u64>,
    places: SourceLines,
    /// Names that the program has given, by the number of the allocation.
    names: BTreeMap<u64, String>,
    /// The job ends with the first race.
    abort: bool,
    told: BTreeSet<(u32, usize, [Rank; 2])>,
    found: u64,
    untold: u64,
}

/// Reads frames for the search.
fn load(region: &Region) -> impl Fn(u32, &mut PageBytes) + '_ {
    |page, into| frames::load(region, page, into)
}

impl Search {
    /// A search, if there is to be one.
    pub(crate) fn new(setting: RaceSetting, pages: u32) -> Option<Box<Search>> {
        (setting != RaceSetting::Off).then(|| {
            Box::new(Search {
                races: Races::new(LOG),
                sites: vec![0; pages as usize],
                places: SourceLines::default(),
                names: BTreeMap::new(),
                abort: setting == RaceSetting::Abort,
                told: BTreeSet::new(),
                found: 0,
                untold: 0,
            })
        })
    }

    /// The instruction at `pc` has to wait to write a page. (In a signal handler.)
    pub(crate) fn wants_to_write(&mut self, node: &Node, page: u32, pc: usize) {
        if let Some(site) = self.sites.get_mut(page as usize) {
            *site = (pc as u64) << EPOCH_BITS | low_bits(node);
        }
    }

    /// The instruction that a page was written from in this epoch, as far as it is known; or 0.
    fn site(&self, node: &Node, page: u32) -> u64 {
        let site = self.sites[page as usize];
        let is_now = site & ((1 << EPOCH_BITS) - 1) == low_bits(node);
        if is_now { site >> EPOCH_BITS } else { 0 }
    }

    /// A page of another home was compared with its twin. `met`: what the home had, if the changes are to be
    /// put there.
    pub(crate) fn note(
        &mut self,
        node: &Node,
        page: u32,
        [old, new]: [&PageBytes; 2],
        changes: &Changes,
        met: Option<&PageBytes>,
    ) {
        let site = self.site(node, page);
        self.races.note(node, &Change { page, site, old, new, changes, met });
    }

    /// Sees to it that there is room for what is noted in faults.
    pub(crate) fn make_room(&mut self) {
        self.races.make_room();
    }

    /// A diff is about to be merged here.
    pub(crate) fn merging(&mut self, region: &Region, from: Rank, meeting: u32, page: u32) {
        self.races.merging(from, meeting, page, &load(region));
    }

    /// Tells the homes of pages what was written in them.
    pub(crate) fn send_writes(&mut self, node: &mut Node, context: &RankContext) -> Result<()> {
        let places = &mut self.places;
        let said = self.races.send_writes(node, &load(&context.region), |site| places.words(site));
        for (to, message) in said {
            context.endpoint.send(to.0, Kind::WriteTraces.number(), &[&message])?;
            node.handle(Input::WritesSent(to))?;
        }
        Ok(())
    }

    /// Takes what a peer tells.
    pub(crate) fn hear(&mut self, write_traces: WriteTraces) {
        self.races.hear(write_traces);
    }

    /// Finds the races of the epoch that ends, and tells them.
    pub(crate) fn compare_writes(&mut self, node: &Node, region: &Region) {
        // The node is in the next epoch already.
        let epoch = node.epoch().wrapping_sub(1);
        let (sites, places) = (&self.sites, std::cell::RefCell::new(&mut self.places));
        let own = |page: u32| {
            let site = sites[page as usize];
            let then = site & ((1 << EPOCH_BITS) - 1) == u64::from(epoch) & ((1 << EPOCH_BITS) - 1);
            if then { places.borrow_mut().words(site >> EPOCH_BITS) } else { String::new() }
        };
        for race in self.races.compare_writes(node, &load(region), own) {
            self.found += 1;
            self.tell(node, region, &race);
        }
    }

    /// Tells a race, once a place and not without end; and ends the rank if that was asked for.
    fn tell(&mut self, node: &Node, region: &Region, race: &Race) {
        let place = (race.page, race.offset, [race.writers[0].rank, race.writers[1].rank]);
        if self.told.contains(&place) {
            return;
        }
        if self.told.len() >= MOST_TOLD {
            self.untold += 1;
            return;
        }
        self.told.insert(place);
        say(format!("scash: data race: {}\n", self.describe(node, region, race)));
        if self.abort {
            say(format!("scash: {} ends here, as SCASH_RACES=abort asks\n", node.rank()));
            // SAFETY: ends the process at once, running no code of the program.
            unsafe { libc::_exit(EXIT_RACE) }
        }
    }

    fn describe(&mut self, node: &Node, region: &Region, race: &Race) -> String {
        let [first, second] = race.writers.each_ref().map(|writer| self.writer(writer));
        let address = region.app_base() as usize + race.page as usize * PAGE + race.offset;
        let place = self.place(node, race);
        let bytes = match race.len {
            1 => format!("byte {address:#x}"),
            n => format!("{n} bytes from {address:#x}"),
        };
        format!(
            "{first} and {second} both wrote {bytes} ({place}) between two memory barriers, and nothing orders one write before the other"
        )
    }

    fn writer(&mut self, writer: &Writer) -> String {
        match self.places.with_lines(&writer.site) {
            words if words.is_empty() => format!("{} (from where is not known)", writer.rank),
            words => format!("{} (which wrote the page from {words})", writer.rank),
        }
    }

    /// The bytes' place in their allocation.
    fn place(&self, node: &Node, race: &Race) -> String {
        let Some(a) = node.allocation(race.page) else { return "in memory that is freed".to_owned() };
        let offset = (race.page - a.first) as usize * PAGE + race.offset;
        match self.names.get(&a.id) {
            Some(name) => format!("\"{name}\" + {offset}"),
            None if a.id == RESERVED => format!("the heap + {offset}"),
            None => format!("allocation {} of {} bytes + {offset}", a.id, a.bytes),
        }
    }

    /// The program calls the allocation with this page so.
    pub(crate) fn name(&mut self, node: &Node, page: u32, name: &str) {
        if let Some(a) = node.allocation(page) {
            self.names.insert(a.id, name.to_owned());
        }
    }

    /// Races found so far, one for each epoch in which bytes were raced for.
    pub(crate) fn found(&self) -> u64 {
        self.found
    }

    /// What is to be said at the end.
    pub(crate) fn last_words(&self, node: &Node) -> Option<String> {
        let (rank, untold) = (node.rank(), self.untold);
        (untold > 0).then(|| format!("scash: {rank} found data races {untold} times more, and told only the first {MOST_TOLD} places\n"))
    }
}

fn low_bits(node: &Node) -> u64 {
    u64::from(node.epoch()) & ((1 << EPOCH_BITS) - 1)
}
