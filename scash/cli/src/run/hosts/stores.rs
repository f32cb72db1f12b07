//! What launcher and agents tell each other of the stores of ranks, as fields of frames: numbers alone, of
//! which each is as good as any other here. Whether they make sense is for `recall` to say.

use super::fields::{Fields, Frame};
use super::frames::{Keeping, StoreChunk};
use crate::run::output::Lengths;
use crate::run::recovery::{MarkedEpoch, Rewound, RewoundPlace, StoreState};
use scash_ft::{Base, Epoch, Incarnation, Mark};
use scash_join::boot::Layout;

impl Frame {
    pub(super) fn base(self, base: Base) -> Frame {
        self.long(base.incarnation.0).long(base.epoch.0)
    }

    /// Rank, base, and each mark behind a byte that says whether there is one.
    pub(super) fn state(self, state: &StoreState) -> Frame {
        let frame = self.number(state.rank).base(state.base);
        state.marks.iter().fold(frame, |frame, marked| match marked {
            None => frame.byte(0),
            Some(MarkedEpoch { mark, barrier, output, kept }) => {
                let frame = frame.byte(1).long(mark.incarnation.0).long(mark.epoch.0).long(*barrier);
                frame.long(output[0]).long(output[1]).long(kept[0]).long(kept[1])
            }
        })
    }

    pub(super) fn piece(self, StoreChunk { rank, at, bytes }: &StoreChunk) -> Frame {
        self.number(*rank).long(*at).bytes(bytes)
    }

    /// How many there are, and each: rank, base, how much it had printed, how much of that or more is out,
    /// and what it is there: 0 stays, 1 comes, 2 a copy.
    pub(super) fn rewound(self, all: &[Rewound]) -> Frame {
        all.iter().fold(self.length(all.len()), |frame, Rewound { rank, base, output, shown, place }| {
            let frame = frame.number(*rank).base(*base).long(output[0]).long(output[1]);
            frame.long(shown[0]).long(shown[1]).byte(*place as u8)
        })
    }

    /// How many ranks there are, and where they run.
    pub(super) fn layout(self, layout: &Layout) -> Frame {
        self.number(layout.size()).bytes(&layout.encode())
    }

    /// How many there are, and each: its rank and its host.
    pub(super) fn adopted(self, adopted: &[(u32, u32)]) -> Frame {
        adopted
            .iter()
            .fold(self.length(adopted.len()), |frame, (rank, host)| frame.number(*rank).number(*host))
    }

    /// Base, the exit status behind a byte that says whether there is one, another such byte for whether
    /// ranks were recalled, the epoch that all ranks had, where ranks ran, which were adopted, how many have
    /// printed, and each with its number and lengths.
    pub(super) fn keeping(self, keeping: &Keeping) -> Frame {
        let Keeping { base, finished, is_recalled, committed, layout, adopted, printed } = keeping;
        let frame = self.base(*base).byte(u8::from(finished.is_some())).byte(finished.unwrap_or(0));
        let frame = frame.byte(u8::from(*is_recalled)).long(committed.0);
        let frame = frame.layout(layout).adopted(adopted).length(printed.len());
        let rank =
            |frame: Frame, (rank, [out, err]): &(u32, Lengths)| frame.number(*rank).long(*out).long(*err);
        printed.iter().fold(frame, rank)
    }
}

impl Fields<'_> {
    pub(super) fn base(&mut self) -> Result<Base, String> {
        Ok(Base { incarnation: Incarnation(self.long()?), epoch: Epoch(self.long()?) })
    }

    pub(super) fn state(&mut self) -> Result<StoreState, String> {
        let (rank, base) = (self.number()?, self.base()?);
        Ok(StoreState { rank, base, marks: [self.marked()?, self.marked()?] })
    }

    fn marked(&mut self) -> Result<Option<MarkedEpoch>, String> {
        match self.byte()? {
            0 => Ok(None),
            1 => {
                let mark = Mark { incarnation: Incarnation(self.long()?), epoch: Epoch(self.long()?) };
                let (barrier, output) = (self.long()?, [self.long()?, self.long()?]);
                let kept = [self.long()?, self.long()?];
                Ok(Some(MarkedEpoch { mark, barrier, output, kept }))
            }
            other => Err(format!("{other} marks where there is one or none")),
        }
    }

    pub(super) fn piece(&mut self) -> Result<StoreChunk, String> {
        Ok(StoreChunk { rank: self.number()?, at: self.long()?, bytes: self.bytes()?.to_vec() })
    }

    fn place(&mut self) -> Result<RewoundPlace, String> {
        match self.byte()? {
            0 => Ok(RewoundPlace::Stays),
            1 => Ok(RewoundPlace::Comes),
            2 => Ok(RewoundPlace::Elsewhere),
            other => Err(format!("place {other}, which there is not")),
        }
    }

    /// Their number is believed only as far as they come.
    pub(super) fn rewound(&mut self) -> Result<Vec<Rewound>, String> {
        let length = self.number()?;
        let mut all = Vec::new();
        for _ in 0..length {
            let (rank, base) = (self.number()?, self.base()?);
            let (output, shown) = ([self.long()?, self.long()?], [self.long()?, self.long()?]);
            all.push(Rewound { rank, base, output, shown, place: self.place()? });
        }
        Ok(all)
    }

    pub(super) fn layout(&mut self) -> Result<Layout, String> {
        let size = self.number()?;
        Layout::decode(self.bytes()?, size)
    }

    /// Of ranks and hosts that there are.
    pub(super) fn adopted(&mut self, layout: &Layout) -> Result<Vec<(u32, u32)>, String> {
        let length = self.number()?;
        let mut adopted = Vec::new();
        for _ in 0..length {
            let (rank, host) = (self.number()?, self.number()?);
            if rank >= layout.size() || host >= layout.hosts() {
                return Err(format!("rank {rank} of host {host}"));
            }
            adopted.push((rank, host));
        }
        Ok(adopted)
    }

    pub(super) fn keeping(&mut self) -> Result<Keeping, String> {
        let (base, has_finished, status) = (self.base()?, self.flag()?, self.byte()?);
        let (finished, is_recalled) = (has_finished.then_some(status), self.flag()?);
        let (committed, layout) = (Epoch(self.long()?), self.layout()?);
        let adopted = self.adopted(&layout)?;
        let size = layout.size();
        let length = self.number()?;
        let mut printed = Vec::new();
        for _ in 0..length {
            printed.push((self.number()?, [self.long()?, self.long()?]));
        }
        match printed.iter().find(|(rank, _)| *rank >= size) {
            Some((rank, _)) => Err(format!("rank {rank} of {size}")),
            None => Ok(Keeping { base, finished, is_recalled, committed, layout, adopted, printed }),
        }
    }
}
