//! Options of the memory that messages are in over verbs.

use clap::{Args, ValueEnum};

use crate::transport::verbs::{MemorySettings, Node, PageSize};

/// What stands over these options.
pub(super) const MEMORY_HEADING: &str = "Memory of verbs (both sides)";

#[derive(Debug, Args)]
#[command(next_help_heading = MEMORY_HEADING)]
pub(super) struct MemoryArguments {
    /// Pages of the messages' memory; huge ones have to be there
    #[arg(long, value_enum, value_name = "SIZE", default_value_t = PagesName::Normal)]
    pages: PagesName,
    /// Take normal pages where there are not enough huge ones, and say so
    #[arg(long)]
    pages_fallback: bool,
    /// NUMA node of memory and of threads not bound by --cpus: `device`, `any` or a number
    #[arg(long, value_name = "NODE", default_value = "device", value_parser = parse_node)]
    numa: Node,
    /// Register on demand (ODP): pages are pinned when the device touches them
    #[arg(long)]
    odp: bool,
    /// Memory on the device itself
    #[arg(long, conflicts_with_all = ["odp", "pages", "pages_fallback"])]
    device_memory: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum PagesName {
    /// The kernel's own size
    Normal,
    /// 2 MiB
    #[value(name = "2M", alias = "2m")]
    Huge2M,
    /// 1 GiB
    #[value(name = "1G", alias = "1g")]
    Huge1G,
}

impl MemoryArguments {
    pub(super) fn settings(&self) -> MemorySettings {
        MemorySettings {
            pages: match self.pages {
                PagesName::Normal => PageSize::Normal,
                PagesName::Huge2M => PageSize::Huge2M,
                PagesName::Huge1G => PageSize::Huge1G,
            },
            fallback: self.pages_fallback,
            node: self.numa,
            threads_anywhere: false,
            on_demand: self.odp,
            on_device: self.device_memory,
        }
    }
}

fn parse_node(text: &str) -> Result<Node, String> {
    match text {
        "device" => Ok(Node::Device),
        "any" => Ok(Node::Any),
        number => number
            .parse()
            .map(Node::Number)
            .map_err(|_| format!("`{text}` is no NUMA node; write device, any or a number")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes() {
        assert_eq!(parse_node("device"), Ok(Node::Device));
        assert_eq!(parse_node("any"), Ok(Node::Any));
        assert_eq!(parse_node("1"), Ok(Node::Number(1)));
        assert!(parse_node("-1").is_err() && parse_node("").is_err());
    }
}
