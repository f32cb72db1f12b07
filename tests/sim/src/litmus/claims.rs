//! Pages that a rank claims while other threads of it, and other ranks, use them already.

use super::{Job, load, section};
use crate::program::{Change, Op, Span, Word};
use scash_proto::node::ObjectKind;

/// Pages that nobody has touched.
const PAGES: u32 = 4;
/// Additions of each rank to each word of [`words`].
const TURNS: u64 = 2;

/// One thread of each rank looks at all pages, and then writes its own bytes of each; two others read and
/// write, under a lock, bytes that all ranks do.
pub fn bytes(job: &mut Job) {
    let (pages, lock) = (job.untouched(PAGES), job.objects(ObjectKind::Lock, 1));
    let ranks = job.ranks;
    job.threads(3, |rank, thread| {
        let each = (0..PAGES).map(|n| pages.first + (n + rank * PAGES / ranks) % PAGES);
        let own = |page: u32| Span { page, first: 64 * rank as usize, len: 64 };
        let shared = |page: u32| Span { page, first: 2048, len: 64 };
        let salt = rank.to_le_bytes()[0] + 1;
        match thread {
            0 => each.flat_map(|page| [Op::Read(own(page)), Op::Write(own(page), salt)]).collect(),
            _ => each
                .flat_map(|page| section(lock, [Op::Read(shared(page)), Op::Write(shared(page), salt)]))
                .collect(),
        }
    });
    job.interval(|_| pages.iter().map(|page| Op::Read(Span::page(page))).collect());
}

/// One thread of each rank looks at a page and operates on a word of it, one page after the other; another
/// one looks at all of them. The job has no objects.
pub fn words(job: &mut Job) {
    let pages = job.untouched(PAGES);
    let word = |page: u32| Word { page, first: 8, width: 8 };
    let look = |page: u32| Op::Read(Span { page, first: 64, len: 64 });
    job.threads(2, |_, thread| {
        let turn = |page: u32| {
            let add = Op::Operate(word(page), Change::Add(1));
            [look(page)].into_iter().chain((0..TURNS).map(move |_| add))
        };
        match thread {
            0 => pages.iter().flat_map(turn).collect(),
            _ => pages.iter().rev().map(look).collect(),
        }
    });
    job.interval(|_| pages.iter().map(|page| load(word(page))).collect());
}

/// What all ranks find in the end in each word of [`words`].
pub fn sum(ranks: u32) -> u64 {
    u64::from(ranks) * TURNS
}
