//! The commands that the README gives to who comes from perftest.

/// Options of each `fabricbench run HOST`, in the order of the table.
pub fn commands() -> Vec<&'static str> {
    let readme = include_str!("../../../README.md");
    let (_, table) = readme.split_once("### From perftest").unwrap();
    let (table, _) = table.split_once("\n### ").unwrap();
    let cells = table.lines().filter(|line| line.starts_with('|')).filter_map(|line| {
        let (_, command) = line.rsplit_once("| `fabricbench run HOST ")?;
        command.strip_suffix("` |")
    });
    let commands: Vec<_> = cells.collect();
    assert!(commands.len() >= 10, "{commands:?}");
    commands
}
