//! Memory mapped for a region: with which pages, and what to say when there are none.
#![allow(unsafe_code)]

use std::fmt;
use std::io;
use std::ptr::{self, NonNull};

use rustix::mm::{Advice, MapFlags, ProtFlags};

use crate::error::{Error, Result};
use crate::sysfs::{self, Sysfs};

/// The pages under a region. Huge ones spare the device, and the processor, most of the address
/// translations that large buffers cost; they are a stock that has to be reserved first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Pages {
    /// The kernel's own size, 4 KiB on most machines.
    #[default]
    Normal,
    /// 2 MiB.
    Huge2M,
    /// 1 GiB.
    Huge1G,
}

impl Pages {
    /// Bytes of one page.
    #[must_use]
    pub fn bytes(self) -> usize {
        match self {
            Self::Normal => rustix::param::page_size(),
            Self::Huge2M => 1 << 21,
            Self::Huge1G => 1 << 30,
        }
    }

    fn flags(self) -> MapFlags {
        match self {
            Self::Normal => MapFlags::empty(),
            Self::Huge2M => MapFlags::HUGETLB | MapFlags::HUGE_2MB,
            Self::Huge1G => MapFlags::HUGETLB | MapFlags::HUGE_1GB,
        }
    }
}

impl fmt::Display for Pages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Normal => "normal",
            Self::Huge2M => "2 MiB",
            Self::Huge1G => "1 GiB",
        })
    }
}

/// The kernel's stock of huge pages of one size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct HugePages {
    /// Pages set aside.
    pub total: u64,
    /// Those that nobody uses and no mapping has a claim on.
    pub free: u64,
}

impl Sysfs {
    /// The stock of pages of this size over all NUMA nodes; `None` if the kernel or the processor
    /// has no such pages, or they are normal ones.
    #[must_use]
    pub fn huge_pages(&self, pages: Pages) -> Option<HugePages> {
        if pages == Pages::Normal {
            return None;
        }
        let directory = self.root().join("kernel/mm/hugepages").join(directory(pages));
        let count = |name: &str| sysfs::read(&directory.join(name)).ok()?.parse::<u64>().ok();
        let (free, promised) = (count("free_hugepages")?, count("resv_hugepages").unwrap_or(0));
        Some(HugePages { total: count("nr_hugepages")?, free: free.saturating_sub(promised) })
    }
}

fn directory(pages: Pages) -> String {
    format!("hugepages-{}kB", pages.bytes() >> 10)
}

/// Why a mapping with huge pages was refused, and how to get them.
fn no_huge_pages(sysfs: &Sysfs, pages: Pages, length: usize) -> Error {
    let needed = length.div_ceil(pages.bytes());
    let Some(stock) = sysfs.huge_pages(pages) else {
        return Error::HugePages {
            pages,
            length,
            why: "this kernel or processor has none; choose another size".to_owned(),
        };
    };
    let HugePages { total, free } = stock;
    let more = (needed as u64).saturating_sub(free).saturating_add(total);
    let file = format!("/sys/kernel/mm/hugepages/{}/nr_hugepages", directory(pages));
    let late = match pages {
        Pages::Huge1G => {
            format!(", or boot with `hugepagesz=1G hugepages={more}` when memory is fragmented")
        }
        _ => String::new(),
    };
    Error::HugePages {
        pages,
        length,
        why: format!(
            "{needed} needed, {free} of {total} free; as root `echo {more} > {file}`{late}, or \
             allow falling back to normal pages"
        ),
    }
}

/// Pages mapped for a region and for nothing else.
pub(crate) struct Mapping {
    start: NonNull<u8>,
    /// Bytes mapped, a multiple of the page size.
    mapped: usize,
    pages: Pages,
}

// SAFETY: the mapping is owned; it moves between threads like any allocation.
unsafe impl Send for Mapping {}
// SAFETY: a shared `Mapping` gives no access to the bytes.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Zeroed, private memory that starts on a page's boundary and that a child process does not
    /// inherit: the kernel's copy-on-write after a fork would otherwise move this process away
    /// from the pages the device has pinned (Linux before 5.12).
    ///
    /// Huge pages that are not there are an error, or, with `fallback`, become normal ones.
    pub(crate) fn new(length: usize, pages: Pages, fallback: bool) -> Result<Self> {
        let normal = || {
            Self::map(length, Pages::Normal).map_err(|errno| Error::Call {
                call: "mmap",
                object: format!("{length} bytes"),
                errno,
                cure: "choose a smaller buffer or free some memory".to_owned(),
            })
        };
        match pages {
            Pages::Normal => normal(),
            huge => match Self::map(length, huge) {
                Ok(mapping) => Ok(mapping),
                Err(_) if fallback => normal(),
                Err(_) => Err(no_huge_pages(&Sysfs::default(), huge, length)),
            },
        }
    }

    fn map(length: usize, pages: Pages) -> io::Result<Self> {
        let mapped =
            length.checked_next_multiple_of(pages.bytes()).ok_or(io::ErrorKind::OutOfMemory)?;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        let kind = MapFlags::PRIVATE | pages.flags();
        // SAFETY: a new mapping at an address of the kernel's choice touches nothing else.
        let start = unsafe { rustix::mm::mmap_anonymous(ptr::null_mut(), mapped, access, kind) }?;
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        let mapping = Self { start, mapped, pages };
        // SAFETY: the range is exactly the mapping made above.
        unsafe { rustix::mm::madvise(start.as_ptr().cast(), mapped, Advice::LinuxDontFork) }?;
        Ok(mapping)
    }

    pub(crate) fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// Bytes mapped, whole pages.
    pub(crate) fn mapped(&self) -> usize {
        self.mapped
    }

    /// The pages it got.
    pub(crate) fn pages(&self) -> Pages {
        self.pages
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: mapped once with this length, unmapped once; no device holds it any more (see
        // `Registration::drop`). A failure would only leave it mapped.
        let _ = unsafe { rustix::mm::munmap(self.start.as_ptr().cast(), self.mapped) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(kib: u32, total: &str, free: &str, promised: &str) -> (tempfile::TempDir, Sysfs) {
        let root = tempfile::tempdir().unwrap();
        let directory = root.path().join(format!("kernel/mm/hugepages/hugepages-{kib}kB"));
        std::fs::create_dir_all(&directory).unwrap();
        for (name, value) in
            [("nr_hugepages", total), ("free_hugepages", free), ("resv_hugepages", promised)]
        {
            std::fs::write(directory.join(name), format!("{value}\n")).unwrap();
        }
        let sysfs = Sysfs::at(root.path());
        (root, sysfs)
    }

    #[test]
    fn free_huge_pages_are_those_without_a_claim_on_them() {
        let (_root, sysfs) = tree(2048, "64", "10", "3");
        let stock = sysfs.huge_pages(Pages::Huge2M).unwrap();
        assert_eq!((stock.total, stock.free), (64, 7));
        assert_eq!(sysfs.huge_pages(Pages::Huge1G), None);
        assert_eq!(sysfs.huge_pages(Pages::Normal), None);
    }

    #[test]
    fn a_refusal_says_how_many_are_free_and_how_to_get_more() {
        let (_root, sysfs) = tree(2048, "64", "10", "3");
        let text = no_huge_pages(&sysfs, Pages::Huge2M, (9 << 21) - 5).to_string();
        assert!(text.contains("in 2 MiB pages: 9 needed, 7 of 64 free"), "{text}");
        // Two more than there are.
        assert!(
            text.contains("`echo 66 > /sys/kernel/mm/hugepages/hugepages-2048kB/nr_"),
            "{text}"
        );
        assert_eq!(text.lines().count(), 1);
        let (_root, sysfs) = tree(1 << 20, "0", "0", "0");
        let text = no_huge_pages(&sysfs, Pages::Huge1G, 1).to_string();
        assert!(text.contains("1 needed, 0 of 0 free"), "{text}");
        assert!(text.contains("hugepagesz=1G hugepages=1"), "{text}");
    }

    #[test]
    fn a_size_the_machine_does_not_have_is_said_so() {
        let (_root, sysfs) = tree(2048, "64", "10", "3");
        let text = no_huge_pages(&sysfs, Pages::Huge1G, 1).to_string();
        assert!(text.contains("this kernel or processor has none"), "{text}");
    }

    #[test]
    fn a_mapping_is_whole_pages_and_falls_back_only_when_allowed() {
        let mapping = Mapping::new(5000, Pages::Normal, false).unwrap();
        assert_eq!(mapping.mapped(), 5000_usize.next_multiple_of(Pages::Normal.bytes()));
        // More than any machine has set aside, and little enough to map.
        let length = 1 << 43;
        let error = Mapping::new(length, Pages::Huge1G, false).map(|_| ()).unwrap_err();
        assert!(matches!(error, Error::HugePages { .. }), "{error}");
        let huge = Mapping::new(1 << 20, Pages::Huge1G, true).unwrap();
        assert!([Pages::Normal, Pages::Huge1G].contains(&huge.pages()));
    }
}
