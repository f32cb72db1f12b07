//! Messages as no correct rank sends them: what a broken or hostile peer might say.

use super::rng::Rng;
use scash_proto::copyset::CopyMode;
use scash_proto::wire::reduce::Direction;
use scash_proto::wire::sync::{Brought, Follower, Record, Request, Signal, SyncBody};
use scash_proto::wire::{Control, Kind, News, Notice, PageBatch, Parcel, ReduceMessage, SyncMessage, Token};
use scash_proto::{PAGE_SIZE, Pages, Rank};

/// What lies may refer to.
pub(super) struct Liar<'a> {
    pub(super) rng: &'a mut Rng,
    pub(super) size: u32,
    pub(super) pages: u32,
}

impl Liar<'_> {
    /// Another message in place of a true one: with wrong bytes, shorter, or with wrong contents.
    pub(super) fn tamper(&mut self, kind: Kind, mut bytes: Vec<u8>) -> (Kind, Vec<u8>) {
        match self.rng.below(8) {
            0 => {
                for _ in 0..self.rng.between(1, 4) {
                    let at = self.index(bytes.len());
                    if let Some(byte) = bytes.get_mut(at) {
                        *byte ^= self.rng.bits().to_le_bytes()[0];
                    }
                }
                (kind, bytes)
            }
            1 => {
                let end = self.index(bytes.len());
                bytes.truncate(end);
                (kind, bytes)
            }
            _ => self.distort(kind, bytes),
        }
    }

    fn index(&mut self, len: usize) -> usize {
        self.rng.below(u32::try_from(len).unwrap_or(u32::MAX).max(1)) as usize
    }

    fn distort_sync(&mut self, bytes: Vec<u8>) -> Vec<u8> {
        let Ok(mut message) = SyncMessage::decode(&bytes) else { return bytes };
        match (self.rng.below(4), &mut message.body) {
            (0, _) => message.epoch = message.epoch.wrapping_add(self.rng.between(0, 2)).wrapping_sub(1),
            (1, _) => message.object = self.rng.below(message.object + 3),
            (
                2,
                SyncBody::Ask { ticket, .. }
                | SyncBody::Follow { ticket, .. }
                | SyncBody::Refused { ticket, .. }
                | SyncBody::Request { ticket, .. }
                | SyncBody::Queued { ticket }
                | SyncBody::Unmake { ticket }
                | SyncBody::Unmade { ticket, .. }
                | SyncBody::Absent { ticket }
                | SyncBody::Grant { ticket, .. },
            ) => {
                *ticket = self.rng.below(*ticket + 2);
            }
            (3, SyncBody::Request { request, .. }) => {
                *request = self.rng.pick(&[Request::Read, Request::Take, Request::Wakeup])
            }
            (3, SyncBody::Signal { signal, .. }) => {
                *signal =
                    self.rng.pick(&[Signal::HasRead, Signal::HasWritten, Signal::Post(9), Signal::WakeAll]);
            }
            (_, SyncBody::Queued { ticket }) => {
                message.body =
                    SyncBody::Grant { ticket: *ticket, records: Vec::new(), brought: Brought::default() };
            }
            (3, SyncBody::Ask { wants, .. } | SyncBody::Follow { next: Follower { wants, .. }, .. }) => {
                wants.push(self.some_pages())
            }
            (_, SyncBody::Ask { known, .. } | SyncBody::Request { known, .. }) => {
                known.push((self.rank(), self.rng.below(9).into()))
            }
            (_, SyncBody::Follow { next, .. }) => next.place.rank = self.rank(),
            (3, SyncBody::Grant { brought, .. }) => {
                *brought = Brought {
                    known: vec![(self.rank(), self.rng.below(9).into())],
                    pages: vec![self.some_pages().first],
                    bytes: vec![7; PAGE_SIZE],
                };
            }
            (_, SyncBody::Refused { before, .. }) => before.rank = self.rank(),
            (_, SyncBody::Grant { records, .. } | SyncBody::Signal { records, .. }) => {
                records.push(Record {
                    rank: self.rank(),
                    number: self.rng.below(9).into(),
                    pages: vec![self.some_pages()],
                    tracked: vec![self.some_pages()],
                });
            }
            (3, SyncBody::Unmade { ticket, .. }) => message.body = SyncBody::Absent { ticket: *ticket },
            (_, SyncBody::Unmade { user, .. }) => *user = Some(self.rank()),
            (_, SyncBody::Unmake { ticket } | SyncBody::Absent { ticket }) => {
                message.body = SyncBody::Unmade { ticket: *ticket, user: None };
            }
            (_, SyncBody::Track { pages }) => pages.push(self.some_pages()),
        }
        message.encode()
    }

    fn rank(&mut self) -> Rank {
        // At times one that does not exist.
        Rank(self.rng.below(self.size + u32::from(self.rng.clone().chance(10))))
    }

    fn some_pages(&mut self) -> Pages {
        let first = self.rng.below(self.pages);
        Pages { first, count: self.rng.between(0, 3) }
    }

    /// Sound in form, wrong in contents.
    fn distort(&mut self, kind: Kind, bytes: Vec<u8>) -> (Kind, Vec<u8>) {
        let meeting = bytes.first_chunk().map_or(0, |b| u32::from_le_bytes(*b));
        let bytes = match (kind, Token::decode(&bytes), Control::decode(&bytes)) {
            (Kind::Token, Ok(token), _) => self.distort_token(token).encode(),
            (Kind::Control, _, Ok((meeting, control))) => self.distort_control(control).encode(meeting),
            (Kind::Sync, ..) => self.distort_sync(bytes),
            (Kind::Reduce, ..) => self.distort_reduction(bytes),
            (Kind::Parcel, ..) => Parcel { meeting, home: self.rank() }.encode().to_vec(),
            _ => {
                let mut out = Vec::new();
                PageBatch::begin(&mut out, meeting);
                let page = self.some_pages().end();
                PageBatch::push(&mut out, page, true, |out| {
                    out.extend_from_slice(&[1, 0, 0, 0, 7]);
                    5
                });
                out
            }
        };
        (kind, bytes)
    }

    fn distort_reduction(&mut self, bytes: Vec<u8>) -> Vec<u8> {
        let Ok(mut message) = ReduceMessage::decode(&bytes) else { return bytes };
        match self.rng.below(6) {
            0 => message.epoch = message.epoch.wrapping_add(self.rng.below(3)).wrapping_sub(1),
            1 => message.number = message.number.wrapping_add(u64::from(self.rng.below(3))).wrapping_sub(1),
            2 => message.direction = self.rng.pick(&[Direction::Up, Direction::Down, Direction::Disagree]),
            3 => message.span[1].purpose.0[0] += 1,
            4 => message.values.push(0),
            _ => {
                let value = self.rng.pick(&[0, u64::MAX, 1 << 40]);
                message.values.iter_mut().for_each(|it| *it = value);
            }
        }
        message.encode()
    }

    fn distort_token(&mut self, mut token: Token) -> Token {
        match self.rng.below(6) {
            0 => token.meeting = token.meeting.wrapping_add(self.rng.below(4)).wrapping_sub(1),
            1 => token.step = token.step.wrapping_add(1),
            2 => token.away ^= true,
            3 => token.counts.push((self.rank(), self.rng.below(3).into())),
            4 => token.span[1].purpose.0[0] += 1,
            _ => {
                let placed = self.rng.chance(50);
                let news = if self.rng.chance(50) {
                    News::Moves { to: self.rank(), placed }
                } else {
                    News::FirstTouch
                };
                token.notices.push(Notice { origin: self.rank(), pages: self.some_pages(), news });
            }
        }
        token
    }

    fn distort_control(&mut self, mut control: Control) -> Control {
        let pages = self.some_pages();
        match self.rng.below(6) {
            0 => control.stale.push(pages),
            1 => control.leave.push(pages),
            2 => control.operated.push(pages),
            3 => control.subscribe.push((pages, CopyMode::Update)),
            4 => control.ask.push(pages),
            _ => control.subscribe.push((pages, CopyMode::Invalidate)),
        }
        control
    }
}
