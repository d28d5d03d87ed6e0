//! Message buffers whose size somebody else chose.

use std::fs;

use super::TransportError;

/// Zeroed memory for a message of `size` bytes, or a refusal instead of an abort.
///
/// Linux grants more than it has, and ends a process that uses it: so what is available is looked
/// at before, and a message may take half of it, since each side of a test has more than one copy.
///
/// # Errors
/// [`TransportError::Unsupported`] with the size and what is available.
pub(super) fn zeroed(size: u64) -> Result<Vec<u8>, TransportError> {
    let refused = |available: String| {
        TransportError::Unsupported(format!(
            "no memory for messages of {size} B on this host{available}; take a smaller size"
        ))
    };
    if let Some(available) = available()
        && size > available / 2
    {
        return Err(refused(format!(", of which {available} B are available")));
    }
    let length = usize::try_from(size).map_err(|_| refused(String::new()))?;
    let mut buffer = Vec::new();
    buffer.try_reserve_exact(length).map_err(|_| refused(String::new()))?;
    buffer.resize(length, 0);
    Ok(buffer)
}

/// `MemAvailable` in bytes; `None` where the kernel does not say.
fn available() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().strip_suffix(" kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_much_is_refused_in_words() {
        assert_eq!(zeroed(3).unwrap(), [0; 3]);
        for size in [available().unwrap(), 1 << 45, u64::MAX] {
            let error = zeroed(size).unwrap_err();
            assert!(matches!(error, TransportError::Unsupported(_)));
            assert!(error.to_string().contains(&size.to_string()), "{error}");
        }
    }
}
