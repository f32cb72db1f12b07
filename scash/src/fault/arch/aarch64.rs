//! AArch64: the exception syndrome register (Arm ARM, `ESR_EL1`), which the kernel appends to the signal
//! frame as a tagged record (`struct esr_context` in `asm/sigcontext.h`).

use crate::fault::Access;

/// Tag of the record that holds the syndrome.
const ESR_MAGIC: u32 = 0x4553_5201;
/// Syndrome: exception class, and the class "data abort from user mode".
const CLASS_SHIFT: u32 = 26;
const DATA_ABORT: u64 = 0x24;
/// Syndrome of a data abort: the access was a write.
const WRITE_NOT_READ: u64 = 1 << 6;
/// Syndrome of a data abort: raised by cache maintenance, which needs read access only but sets the bit
/// above.
const CACHE_MAINTENANCE: u64 = 1 << 8;
/// Bytes of the area that holds the records.
const RECORDS: usize = 4096;

/// What every record starts with.
#[repr(C)]
struct RecordHead {
    magic: u32,
    size: u32,
}

/// Whether the access read or wrote; `None` for an attempt to execute, and if the kernel did not say.
pub(crate) fn access(context: &libc::ucontext_t) -> Option<Access> {
    let syndrome = syndrome(context)?;
    if syndrome >> CLASS_SHIFT != DATA_ABORT {
        return None;
    }
    let wrote = syndrome & WRITE_NOT_READ != 0 && syndrome & CACHE_MAINTENANCE == 0;
    Some(if wrote { Access::Write } else { Access::Read })
}

fn syndrome(context: &libc::ucontext_t) -> Option<u64> {
    // The records are the last field, aligned to 16 bytes; the libc crate has it, but not in public.
    let end = size_of::<libc::mcontext_t>();
    let area = (&raw const context.uc_mcontext).cast::<u8>().wrapping_add(end - RECORDS);
    let mut at = 0;
    while at + size_of::<RecordHead>() + size_of::<u64>() <= RECORDS {
        // SAFETY: `at` is inside the record area of a frame that the kernel wrote, and a multiple of 8
        // (checked below).
        let head = unsafe { area.add(at).cast::<RecordHead>().read() };
        let size = head.size as usize;
        if head.magic == ESR_MAGIC {
            // SAFETY: the bound of the loop leaves room for the word behind the head.
            return Some(unsafe { area.add(at + size_of::<RecordHead>()).cast::<u64>().read() });
        }
        if head.magic == 0 || size < size_of::<RecordHead>() || !size.is_multiple_of(8) {
            return None;
        }
        at += size;
    }
    None
}

/// The address of the instruction that faulted.
pub(crate) fn instruction(context: &libc::ucontext_t) -> usize {
    usize::try_from(context.uc_mcontext.pc).unwrap_or(0)
}
