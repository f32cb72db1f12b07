//! A simulated rank as the [machine](Machine) that orders are carried out on: every step takes time, and
//! pages have no contents but ones where they were written.

use super::World;
use crate::scale::queue::Freight;
use scash_proto::codec::Malformed;
use scash_proto::diff::{Changes, PageBytes};
use scash_proto::interpreter::{Answer, Interpreter, MOST_GOT, Machine, Step};
use scash_proto::node::{Node, Output, Violation};
use scash_proto::wire::Kind;
use scash_proto::{Access, PAGE_SIZE, Pages, Rank, Transfer};
use std::fmt;

const PAGE: u64 = PAGE_SIZE as u64;
const ZEROS: PageBytes = [0; PAGE_SIZE];
/// As in the runtime: a batch of diffs is sent when it has grown past this, in bytes.
const BATCH: usize = 48 << 10;
/// As in the runtime: changes of a page in more pieces than this are not put one by one.
const FEW: usize = 8;

/// A bug: the protocol refuses what its own nodes sent, or a trace does what no trace does.
#[derive(Debug)]
pub(super) struct Bug(String);

impl fmt::Display for Bug {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<Violation> for Bug {
    fn from(violation: Violation) -> Self {
        Bug(violation.to_string())
    }
}

impl From<Malformed> for Bug {
    fn from(malformed: Malformed) -> Self {
        Bug(malformed.to_string())
    }
}

type SimulationResult<T> = Result<T, Bug>;

/// One rank, while an order is carried out or a message is taken.
pub(super) struct RankMachine<'a, 'w> {
    world: &'a mut World<'w>,
    rank: usize,
}

impl World<'_> {
    /// Carries out an order.
    pub(super) fn interpret(&mut self, rank: usize, order: Output) -> Step {
        self.with_interpreter(rank, |interpreter, machine| interpreter.carry_out(machine, order))
    }

    /// Takes a message.
    pub(super) fn take_message(&mut self, rank: usize, from: Rank, kind: Kind, bytes: &[u8]) {
        self.with_interpreter(rank, |interpreter, m| interpreter.take(m, from, kind.number(), bytes));
    }

    fn with_interpreter<T>(
        &mut self,
        rank: usize,
        run: impl FnOnce(&mut Interpreter, &mut RankMachine<'_, '_>) -> SimulationResult<T>,
    ) -> T {
        let mut interpreter = self.ranks[rank].interpreter.take().expect("a rank does one thing at a time");
        let done = run(&mut interpreter, &mut RankMachine { world: self, rank });
        self.ranks[rank].interpreter = Some(interpreter);
        done.unwrap_or_else(|bug| panic!("rank {rank}: {bug}"))
    }
}

impl RankMachine<'_, '_> {
    /// A call of the system about pages.
    fn call(&mut self) -> SimulationResult<()> {
        self.world.ranks[self.rank].clock += self.world.machine.pages.call;
        Ok(())
    }
}

/// What traces do not do: they move nothing, lock nothing, operate on no words, and run on one thread.
fn never<T>(what: &str) -> SimulationResult<T> {
    Err(Bug(format!("a trace made its node order to {what}")))
}

impl Machine for RankMachine<'_, '_> {
    type Error = Bug;

    fn node(&mut self) -> &mut Node {
        &mut self.world.ranks[self.rank].node
    }

    fn transfer(&self) -> Transfer {
        Transfer::ZeroCopy
    }

    fn map_zero(&mut self, pages: Pages, _: Access) -> SimulationResult<()> {
        self.world.ranks[self.rank].clock += self.world.machine.pages.zero * u64::from(pages.count);
        self.call()
    }

    fn map(&mut self, _: Pages, _: Access) -> SimulationResult<()> {
        self.call()
    }

    fn protect(&mut self, _: Pages, _: Access) -> SimulationResult<()> {
        self.call()
    }

    fn unmap(&mut self, _: Pages) -> SimulationResult<()> {
        self.call()
    }

    fn discard(&mut self, _: Pages) -> SimulationResult<()> {
        self.call()
    }

    fn watch(&mut self, _: Pages) -> SimulationResult<bool> {
        self.call()?;
        Ok(true)
    }

    fn unwatch(&mut self, _: Pages) -> SimulationResult<()> {
        self.call()
    }

    fn written(&mut self, pages: Pages, found: &mut Vec<Pages>) -> SimulationResult<()> {
        let written = &self.world.ranks[self.rank].written;
        found.extend(pages.iter().filter(|page| written.contains_key(page)).map(Pages::one));
        self.call()
    }

    fn look(&mut self, page: u32) -> SimulationResult<()> {
        let me = &mut self.world.ranks[self.rank];
        me.clock += self.world.machine.pages.compare;
        self.world.seen.fill(0);
        if let Some(written) = me.written.get(&page) {
            written.show(&mut self.world.seen);
        }
        Ok(())
    }

    fn seen(&self) -> &PageBytes {
        &self.world.seen
    }

    fn differences(&mut self, _: u32) -> SimulationResult<Changes> {
        Ok(Changes::between(&ZEROS, &self.world.seen))
    }

    fn store(&mut self, _: u32, _: usize, _: &[u8]) -> SimulationResult<()> {
        Ok(())
    }

    fn make_twin(&mut self, _: u32) -> SimulationResult<()> {
        self.world.ranks[self.rank].clock += self.world.machine.pages.copy;
        Ok(())
    }

    /// What is merged has its costs as a whole.
    fn twin(&mut self, _: u32) -> SimulationResult<Option<&mut PageBytes>> {
        Ok(None)
    }

    fn twin_what_was_seen(&mut self, page: u32) -> SimulationResult<()> {
        self.make_twin(page)
    }

    fn drop_twin(&mut self, _: u32) -> SimulationResult<()> {
        Ok(())
    }

    fn put_seen(&mut self, _: Rank, _: u32, _: &Changes) -> SimulationResult<()> {
        never("put a diff")
    }

    fn put_seen_if_cheap(&mut self, to: Rank, _: u32, changes: &Changes) -> SimulationResult<bool> {
        let is_cheap = self.world.machine.network.direct || changes.runs().nth(FEW).is_none();
        if is_cheap {
            self.world.put(self.rank, to, changes.bytes() as u64);
        }
        Ok(is_cheap)
    }

    fn put_pages(&mut self, to: Rank, pages: Pages) -> SimulationResult<()> {
        self.world.put(self.rank, to, u64::from(pages.count) * PAGE);
        Ok(())
    }

    fn pages_a_get(&self, _: Rank) -> usize {
        MOST_GOT
    }

    fn get_pages(&mut self, _: Rank, _: &[u32], _: &mut [PageBytes]) -> SimulationResult<()> {
        never("renew pages")
    }

    fn send(&mut self, to: Rank, kind: Kind, bytes: &[u8]) -> SimulationResult<()> {
        let freight = Freight::Message { kind, bytes: bytes.to_vec() };
        self.world.send(self.rank, to, bytes.len() as u64, freight);
        Ok(())
    }

    fn come(&mut self, _: u64, _: Option<u64>) -> SimulationResult<()> {
        never("meet by words")
    }

    fn flush(&mut self) -> SimulationResult<()> {
        Ok(())
    }

    fn close(&mut self, _: &mut Vec<Rank>, _: Option<Rank>) -> SimulationResult<bool> {
        never("end an interval")
    }

    fn is_full(&mut self, bytes: usize) -> bool {
        bytes >= BATCH
    }

    fn mark_all(&mut self, _: Rank) -> SimulationResult<()> {
        never("mark pages")
    }

    fn is_marked(&mut self, _: u32) -> bool {
        false
    }

    fn forget_claims(&mut self, _: Pages) -> SimulationResult<()> {
        never("forget claims")
    }

    fn answer(&mut self, _: u32, _: u64, _: Answer) -> SimulationResult<()> {
        never("let a thread go on")
    }

    fn stalled(&mut self, _: Rank, _: &[u8]) -> SimulationResult<()> {
        never("say who waits for whom")
    }

    fn hear(&mut self, _: Rank, _: &[u8]) -> SimulationResult<()> {
        never("look for data races")
    }

    fn wrote_diff(&mut self, bytes: usize) {
        self.world.ranks[self.rank].clock += self.world.machine.pages.encoding(bytes as u64);
    }
}
