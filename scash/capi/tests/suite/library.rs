//! What the libraries are, as the linker and the loader see them.

use crate::support::{built, here, tool};
use std::process::Command;

fn output(program: &str, arguments: &[&str]) -> String {
    let done = Command::new(program).args(arguments).arg(&built().shared).output().unwrap();
    assert!(done.status.success(), "{program}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).unwrap()
}

#[test]
fn the_shared_library_exports_the_functions_of_the_headers_and_nothing_else() {
    let Some(nm) = tool("NM", "nm") else {
        eprintln!("skipped: there is no nm (or what NM names)");
        return;
    };
    let read = |name| std::fs::read_to_string(here("include").join(name)).unwrap();
    let header = ["scash.h", "scash_comm.h"].map(read).concat();
    let symbols = output(&nm, &["-D", "--defined-only"]);
    let exported: Vec<&str> = symbols.lines().filter_map(|line| line.split_whitespace().last()).collect();
    let strangers: Vec<_> = exported.iter().filter(|name| !header.contains(&format!("{name}("))).collect();
    assert!(strangers.is_empty(), "exported, but in no header: {strangers:?}");
    let is_function =
        |line: &&str| line.ends_with(");") && !line.starts_with(' ') && !line.starts_with("typedef ");
    for declaration in header.lines().filter(is_function) {
        let name = declaration.split('(').next().unwrap().rsplit([' ', '*']).next().unwrap();
        assert!(exported.contains(&name), "in a header, but not exported: {name}");
    }
}

#[test]
fn programs_find_the_shared_library_by_its_name_and_it_stays() {
    let Some(readelf) = tool("READELF", "readelf") else {
        eprintln!("skipped: there is no readelf (or what READELF names)");
        return;
    };
    let dynamic = output(&readelf, &["-d"]);
    assert!(dynamic.contains("soname: [libscash.so]"), "{dynamic}");
    assert!(dynamic.contains("NODELETE"), "its fault handler must not be unloaded: {dynamic}");
}
