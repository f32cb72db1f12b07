//! One page that all write: nobody's bytes disturb anybody else's.

use super::{Job, section};
use crate::program::{Op, Span};
use scash_proto::PAGE_SIZE;
use scash_proto::node::ObjectKind;

/// Bytes side by side: of each group one is the lock's, and each rank has one.
pub fn side_by_side(job: &mut Job) {
    const GROUPS: usize = 12;
    let (page, lock) = (job.pages(1).first, job.objects(ObjectKind::Lock, 1));
    let group = job.ranks as usize + 1;
    let byte = |group_number: usize, of: usize| Span { page, first: group_number * group + of, len: 1 };
    for round in 0..4u8 {
        job.interval(|rank| {
            let own = |n: usize| byte(n, 1 + rank as usize);
            let salt = |n: usize| n.to_le_bytes()[0] ^ round << 6 ^ rank.to_le_bytes()[0] << 4;
            let turn = |n: usize| {
                let shared = [Op::Read(byte(n, 0)), Op::Write(byte(n, 0), salt(n)), Op::Read(own(n))];
                let mut ops = vec![Op::Write(own(n), salt(n))];
                ops.extend(section(lock, shared));
                ops.push(Op::Read(own(n)));
                ops
            };
            (0..GROUPS).flat_map(turn).collect()
        });
    }
    job.interval(|_| vec![Op::Read(Span::page(page))]);
}

/// Many ranks write one page between and inside critical sections: a part that whoever has the lock uses, one
/// that each rank writes in its critical sections, and one that it writes between them.
pub fn between_and_inside(job: &mut Job) {
    let (page, lock) = (job.pages(1).first, job.objects(ObjectKind::Lock, 1));
    let len = PAGE_SIZE / (2 * job.ranks as usize + 1);
    let part = |number: u32| Span { page, first: number as usize * len, len };
    let shared = part(0);
    for round in 0..3u8 {
        job.interval(|rank| {
            let (inside, between) = (part(1 + 2 * rank), part(2 + 2 * rank));
            let turn = |turn: u8| {
                let salt = 40 * round + 10 * turn + rank.to_le_bytes()[0];
                let work =
                    [Op::Read(shared), Op::Write(inside, salt), Op::Write(shared, salt), Op::Read(between)];
                let mut ops = vec![Op::Read(between), Op::Write(between, salt)];
                ops.extend(section(lock, work));
                ops.extend([Op::Read(inside), Op::Read(between), Op::Flicker(between, salt + 5)]);
                ops
            };
            (0..3).flat_map(turn).collect()
        });
    }
    job.interval(|_| vec![Op::Read(Span::page(page))]);
}
