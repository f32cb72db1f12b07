//! What rank 1 has in a window, got by rank 0 while rank 1 waits in a call: both poll. In turns with the same
//! request and as long a reply on a bare connection, whose ends spin likewise.

use crate::record::{Figures, samples, timed};
use crate::sockets::Sockets;
use crate::{Error, Result};
use scash::runtime::MessageJob;
use scash_bench::bare::{HEAD, REQUEST, SocketEnd};
use scash_bench::size;
use scash_messages::{Joined, Messages};
use scash_mp::Window;

/// A one-sided get by rank 0 while rank 1 waits in a call, in turns with a bare connection
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Bytes of a get: one or more lengths, such as 8,4k,1M
    #[arg(long, value_name = "SIZE,…", value_delimiter = ',', value_parser = size::parse, default_value = "4k")]
    pub(crate) lengths: Vec<usize>,

    /// Samples of each
    #[arg(long, value_name = "R", default_value_t = 40, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,

    /// Gets in a sample
    #[arg(long, value_name = "K", default_value_t = 250, value_parser = clap::value_parser!(u32).range(1..))]
    count: u32,
}

const BEGIN: u16 = 1;
const DONE: u16 = 2;
/// What rank 1 has in the window.
const PATTERN: u8 = 0x5c;

impl Options {
    /// Microseconds of a get, and of a request and a reply.
    pub(crate) fn measure(&self, joined: &Joined, len: usize) -> Result<Figures> {
        let Joined::Scash(world) = joined else { return Err(Error::NotOneSided) };
        let bare = &mut Sockets::connect(joined.messages())?.end;
        let window = world.window(len)?;
        window.write(0, &vec![PATTERN; len])?;
        world.barrier()?;
        let (mut got, mut replied) = (Vec::new(), Vec::new());
        // One more than are counted: the first finds memory that was never touched.
        for round in 0..=self.rounds {
            let times = [self.gets(world, &window, len)?, self.bare(bare, world.rank(), len)?];
            if round > 0 {
                got.push(times[0]);
                replied.push(times[1]);
            }
        }
        world.close_window(window)?;
        Ok(Figures::default().times("get", &samples(got)?).times("bare", &samples(replied)?))
    }

    /// A sample of gets.
    fn gets(&self, world: &MessageJob, window: &Window, len: usize) -> Result<f64> {
        let messages: &dyn Messages = world;
        if world.rank() > 0 {
            messages.send_bytes(0, BEGIN, &[])?;
            messages.receive_bytes(0, DONE, &mut [])?;
            return Ok(0.0);
        }
        let mut into = vec![0; len];
        messages.receive_bytes(1, BEGIN, &mut [])?;
        let time = timed(|| Ok((0..self.count).try_for_each(|_| world.get(window, 1, 0, &mut into))?))?;
        messages.send_bytes(1, DONE, &[])?;
        if into.iter().any(|byte| *byte != PATTERN) {
            return Err(Error::WrongData);
        }
        Ok(time / f64::from(self.count))
    }

    /// A sample of requests and replies.
    fn bare(&self, end: &mut SocketEnd, rank: u32, len: usize) -> Result<f64> {
        let (mut request, mut reply) = ([0; REQUEST], vec![0; HEAD + len]);
        let mut ask = || {
            if rank == 0 {
                end.send(&request)?;
                end.receive(&mut reply)
            } else {
                end.receive(&mut request)?;
                end.send(&reply)
            }
        };
        // The first one finds an end that has not begun to spin.
        ask().map_err(Error::Bare)?;
        let time = timed(|| (0..self.count).try_for_each(|_| ask()).map_err(Error::Bare))?;
        Ok(time / f64::from(self.count))
    }
}
