//! What the figures were taken on.

use std::time::{SystemTime, UNIX_EPOCH};

use fabricbench::observe::{environment, is_emulated_machine};

/// Lines of a Markdown list: when, where, and what to think of it. `about` is what the caller knows
/// of the machine around this one.
pub fn facts(about: &[String]) -> String {
    let here = environment();
    let or = |value: Option<String>| value.unwrap_or_else(|| "not known".to_owned());
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let mut text = format!("- date: {}\n", date(seconds));
    text.push_str(&format!(
        "- machine: {} x {}, {}\n",
        or(here.cpus.map(|cpus| cpus.to_string())),
        or(here.cpu.clone()),
        here.virtualization.clone().unwrap_or_else(|| "no virtualisation seen".to_owned()),
    ));
    text.push_str(&format!(
        "- kernel: {}, clock {}, congestion control {}\n",
        or(here.kernel.clone()),
        or(here.clock_source.clone()),
        or(here.congestion_control.clone()),
    ));
    for line in about {
        text.push_str(&format!("- {line}\n"));
    }
    if is_emulated_machine(&here) {
        text.push_str(
            "- This is an emulated machine (QEMU TCG): its absolute figures mean nothing. Only the \
             ratios do.\n",
        );
    }
    text
}

/// The day of `seconds` since 1970-01-01T00:00:00Z, in UTC.
fn date(seconds: u64) -> String {
    let mut days = seconds / 86_400;
    let mut year = 1970;
    let leap =
        |year: u64| year.is_multiple_of(4) && !year.is_multiple_of(100) || year.is_multiple_of(400);
    while days >= 365 + u64::from(leap(year)) {
        days -= 365 + u64::from(leap(year));
        year += 1;
    }
    let lengths = [31, 28 + u64::from(leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let mut month = 1;
    for length in lengths {
        if days < length {
            break;
        }
        days -= length;
        month += 1;
    }
    format!("{year}-{month:02}-{:02}", days + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates() {
        assert_eq!(date(0), "1970-01-01");
        assert_eq!(date(951_782_399), "2000-02-28");
        assert_eq!(date(951_782_400), "2000-02-29");
        assert_eq!(date(4_107_542_400), "2100-03-01", "2100 is no leap year");
        assert_eq!(date(1_767_225_599), "2025-12-31");
    }

    #[test]
    fn what_the_caller_knows_is_told() {
        let text = facts(&["QEMU 7.2".to_owned()]);
        assert!(text.contains("\n- QEMU 7.2\n") && text.contains("- kernel: "), "{text}");
    }
}
