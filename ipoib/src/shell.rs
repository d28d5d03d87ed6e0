//! Names of the host in commands for a shell.

/// `name` as one word of a shell, in quotes if it has anything that means something to one: an interface may be
/// called all but `.` and `..`, without slash, colon and white space (`dev_valid_name`, net/core/dev.c).
#[must_use]
pub fn word(name: &str) -> String {
    let is_plain = |char: char| char.is_ascii_alphanumeric() || "_-.@:%+=,/".contains(char);
    if !name.is_empty() && name.chars().all(is_plain) {
        return name.to_owned();
    }
    format!("'{}'", name.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::word;

    #[test]
    fn what_means_something_to_a_shell_is_quoted() {
        for name in ["eth0", "bond0.100", "eth0@if7"] {
            assert_eq!(word(name), name);
        }
        assert_eq!(word("e;reboot"), "'e;reboot'");
        assert_eq!(word("a'b"), r"'a'\''b'");
        assert_eq!(word("$HOME"), "'$HOME'");
    }
}
