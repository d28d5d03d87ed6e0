//! Whether processors changed their speed while a run went on.

use crate::report::{Document, Environment, Frequency};

/// Keeps what was read behind a slice on client and server, in MHz.
pub(super) fn note(hosts: [Option<&mut Environment>; 2], mhz: [Option<u32>; 2]) {
    for (host, mhz) in hosts.into_iter().zip(mhz) {
        if let Some(host) = host {
            Frequency::add(&mut host.frequency_mhz, mhz);
        }
    }
}

/// A warning for each side whose processors ended at another speed than they began with.
pub(super) fn moved(document: &Document) -> Vec<String> {
    let client = Some(("client", &document.client));
    let server = document.server.as_ref().map(|server| ("server", server));
    let sides = client.into_iter().chain(server);
    sides.filter_map(|(side, host)| warning(side, host)).collect()
}

fn warning(side: &str, host: &Environment) -> Option<String> {
    let frequency = host.frequency_mhz.filter(|frequency| frequency.moved())?;
    let mend = match host.governor.as_deref() {
        Some("performance") | None => "look for heat, limits of power, and other programs",
        Some(_) => "set the governor to performance, and look for heat and other programs",
    };
    Some(format!(
        "the {side}'s processors ran at {} MHz behind the first slice and at {} MHz behind the last: cells \
         that were measured at another speed do not compare; {mend}",
        frequency.first, frequency.last
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(governor: &str, mhz: &[u32]) -> Environment {
        let mut host =
            Environment { governor: Some(governor.to_owned()), ..Environment::default() };
        mhz.iter().for_each(|&mhz| Frequency::add(&mut host.frequency_mhz, Some(mhz)));
        host
    }

    #[test]
    fn only_a_speed_that_moved_is_told() {
        assert_eq!(warning("client", &host("performance", &[])), None);
        assert_eq!(warning("client", &host("performance", &[2000, 1500, 2200])), None);
        let told = warning("server", &host("powersave", &[2000, 1799])).unwrap();
        assert!(told.contains("server's processors ran at 2000 MHz"), "{told}");
        assert!(told.contains("1799 MHz behind the last") && told.contains("set the governor"));
        let told = warning("server", &host("performance", &[1000, 1101])).unwrap();
        assert!(told.contains("heat") && !told.contains("set the governor"), "{told}");
    }

    #[test]
    fn what_is_read_is_kept_from_first_to_last() {
        let kept = host("", &[3, 1, 5, 2]).frequency_mhz.unwrap();
        assert_eq!(kept, Frequency { first: 3, last: 2, lowest: 1, highest: 5 });
    }
}
