use std::process::{Command, Stdio};
/// The C compiler.
pub(crate) fn cc() -> String {
    tool("CC", "cc").expect("a C compiler: install cc, or name one with CC")
}

/// The program that the variable names, or else `default`, if it is there.
pub(crate) fn tool(variable: &str, default: &str) -> Option<String> {
    let name =
        std::env::var(variable).ok().filter(|name| !name.is_empty()).unwrap_or_else(|| default.to_owned());
    let found = Command::new(&name).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    found.is_ok().then_some(name)
}
