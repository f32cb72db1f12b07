//! Mistakes that the typed interface leaves no room for: programs in `ui/` that must not compile, with what the compiler says.
//!
//! After a change of the interface or of the compiler, `TRYBUILD=overwrite` writes what it says now.

#[test]
fn programs_that_misuse_shared_memory_do_not_compile() {
    trybuild::TestCases::new().compile_fail("tests/ui/*.rs");
}
