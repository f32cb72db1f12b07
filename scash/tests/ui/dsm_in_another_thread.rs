//! One thread of a rank makes its collective calls.

fn start(mut dsm: scash::Dsm) {
    std::thread::spawn(move || dsm.barrier()); //~ E0277
}

fn main() {}
