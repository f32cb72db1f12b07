//! What a lock guards is reached through its guards alone, also by functions over all objects of
//! synchronisation.
#![forbid(unsafe_code)]

use scash::{AtomicWord, Reducible, SharedSlice, SyncObject};

fn steal<O: SyncObject>(object: &O) -> (SharedSlice<O::Value>, usize) { //~ E0220
    object.value().unwrap() //~ E0599
}

fn open<O: SyncObject>(object: &O) {
    object.object(); //~ E0061
    object.object(scash::api::destroy::sealed::Seal(())); //~ E0603
}

fn of_another_kind<O: SyncObject>(_: &O) {
    let _ = O::KIND; //~ E0599
}

fn word<T: AtomicWord>(bits: u64) -> T {
    T::of(bits) //~ E0061
}

fn number<T: Reducible>(bits: u64) -> T {
    T::of_word(bits) //~ E0061
}

fn main() {}
