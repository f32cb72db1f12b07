//! A rank whose publication of a partition fails, and that goes on using it.

use super::Rank;
use scash::{Dsm, Partition, Result};
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;

const LEN: usize = 1000;

/// The last rank publishes while the others come for a barrier: all are told. It then says how its partition
/// is, and so do they.
pub(crate) fn and_go_on(mut rank: Rank) -> Result<ExitCode> {
    let mut field = rank.dsm.partition::<u64>(LEN)?;
    field.parts(&rank.dsm).mine.fill(1);
    field.publish(&mut rank.dsm)?;
    let told = if rank.is(rank.dsm.size() - 1) { field.publish(&mut rank.dsm) } else { rank.dsm.barrier() };
    assert!(told.is_err(), "ranks disagree");
    // Panics are expected here, and said in other words.
    std::panic::set_hook(Box::new(|_| ()));
    let words = [
        look(|| field.all(&rank.dsm).iter().sum::<u64>().to_string()),
        look(|| write(&mut field, &rank.dsm)),
        look(|| format!("{:?}", field.publish(&mut rank.dsm).map_err(|error| error.to_string()))),
    ];
    // In one piece, so that ranks do not talk over each other.
    let line = format!("rank {}: {}\n", rank.dsm.rank(), words.join("; "));
    std::io::stdout().write_all(line.as_bytes()).expect("a reader");
    Ok(rank.tell(told))
}

fn write(field: &mut Partition<u64>, dsm: &Dsm) -> String {
    field.parts(dsm).mine.fill(2);
    "written".to_owned()
}

/// What a call comes to, or why it panics.
fn look(work: impl FnOnce() -> String) -> String {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        let words = panic.downcast_ref::<String>().cloned();
        words.or_else(|| panic.downcast_ref::<&str>().map(|&words| words.to_owned())).unwrap_or_default()
    })
}
