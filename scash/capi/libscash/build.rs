//! How the linker makes `libscash.so`.

fn main() {
    // The name under which programs ask for it when they start, wherever it lay when they were linked.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libscash.so");
    // Its fault handler stays installed, so its code has to stay, too, whatever `dlclose` is told.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
    println!("cargo:rerun-if-changed=build.rs");
}
