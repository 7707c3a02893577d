//! The code of a mapped file: how to unwind it, and the names of its functions.

use std::borrow::Cow;
use std::fs;
use std::io::{self, Read as _};
use std::path::PathBuf;

use gimli::{
    BaseAddresses, CfaRule, CieOrFde, EhFrame, EhFrameHdr, EndianSlice, FrameDescriptionEntry,
    LittleEndian, RegisterRule, UnwindContext, UnwindSection as _,
};
use object::read::elf::ElfFile64;
use object::{Object as _, ObjectSection as _};

use crate::symbols::Symbols;

/// The reader of unwind tables.
pub type Slice<'a> = EndianSlice<'a, LittleEndian>;

type Fde<'a> = FrameDescriptionEntry<Slice<'a>>;

/// A section and its address.
#[derive(Debug, Default)]
struct Section {
    address: u64,
    bytes: Vec<u8>,
}

/// A loaded file. All addresses are in the file's own numbering.
#[derive(Debug)]
pub struct Image {
    eh_frame: Section,
    eh_frame_header: Section,
    symbols: Symbols,
    /// For each segment of code: offset in the file, bytes in the file, address.
    segments: Vec<(u64, u64, u64)>,
}

/// How to get from a function to its caller, at one address.
#[derive(Clone, Debug)]
pub struct Row {
    /// The frame's address: the stack pointer before the call.
    pub cfa: CfaRule<usize>,
    /// The location of the caller's registers.
    pub registers: Vec<(u16, RegisterRule<usize>)>,
    /// Whether the kernel created this frame to run a signal handler.
    pub is_signal: bool,
    /// First address of the function, in the file's own numbering.
    pub start: u64,
}

impl Image {
    /// Parses a file. `debug_files` returns the contents of a symbol file by its path, if it
    /// exists.
    ///
    /// # Errors
    /// Not a supported 64-bit ELF file.
    pub fn parse(
        data: &[u8],
        debug_files: &dyn Fn(&PathBuf) -> Option<Vec<u8>>,
    ) -> Result<Self, object::Error> {
        let file = ElfFile64::parse(data)?;
        let section = |name| -> Section {
            let Some(section) = file.section_by_name(name) else { return Section::default() };
            // A section that cannot be read counts as missing.
            let bytes = section.uncompressed_data().unwrap_or(Cow::Borrowed(&[]));
            Section { address: section.address(), bytes: bytes.into_owned() }
        };
        let mut symbols = Symbols::default();
        symbols.add(&file);
        symbols.add_reached_by_jump(&file);
        if let Some(mini) = mini_debug_info(&file)
            && let Ok(mini) = ElfFile64::parse(&*mini)
        {
            symbols.add(&mini);
        }
        if let Ok(Some(id)) = file.build_id()
            && let Some(debug) = debug_paths(id).iter().find_map(debug_files)
            && let Ok(debug) = ElfFile64::parse(&*debug)
        {
            symbols.add(&debug);
        }
        let endian = file.endian();
        // Segments may share a page of the file (lld creates such files): code is in an executable
        // one.
        let segments = file.elf_program_headers().iter().filter_map(|header| {
            use object::read::elf::ProgramHeader as _;
            let is_code = header.p_type(endian) == object::elf::PT_LOAD
                && header.p_flags(endian).contains(object::elf::PF_X);
            is_code
                .then(|| (header.p_offset(endian), header.p_filesz(endian), header.p_vaddr(endian)))
        });
        Ok(Self {
            eh_frame: section(".eh_frame"),
            eh_frame_header: section(".eh_frame_hdr"),
            symbols,
            segments: segments.collect(),
        })
    }

    /// The file's address for `offset` in the file.
    pub fn address_of_offset(&self, offset: u64) -> Option<u64> {
        self.segments.iter().find_map(|&(start, bytes, address)| {
            // Mappings begin at page boundaries, segments need not.
            let page_start = start & !0xfff;
            (page_start <= offset && offset < start.saturating_add(bytes))
                .then(|| address.wrapping_add(offset).wrapping_sub(start))
        })
    }

    /// Number of functions with a name.
    pub fn symbol_count(&self) -> usize {
        self.symbols.count()
    }

    /// The function at an address: its start, and its name as in the file, if it has one.
    pub fn function(&self, address: u64) -> (Option<u64>, Option<&str>) {
        if let Some((start, name)) = self.symbols.find(address) {
            return (Some(start), Some(name));
        }
        let Ok(start) = self.with_fde(address, |_, _, fde| Ok(fde.initial_address())) else {
            return (None, None);
        };
        // A name whose end is unknown is stored for its first byte.
        (Some(start), self.symbols.find(start).map(|(_, name)| name))
    }

    /// How to unwind at an address.
    ///
    /// # Errors
    /// The file does not contain it.
    pub fn row(&self, address: u64) -> gimli::Result<Row> {
        self.with_fde(address, |eh_frame, bases, fde| {
            let mut context = UnwindContext::new();
            let row = fde.unwind_info_for_address(eh_frame, bases, &mut context, address)?;
            Ok(Row {
                cfa: row.cfa().clone(),
                registers: row
                    .registers()
                    .map(|(register, rule)| (register.0, rule.clone()))
                    .collect(),
                is_signal: fde.is_signal_trampoline(),
                start: fde.initial_address(),
            })
        })
    }

    /// The section with the expressions of a [`Row`].
    pub fn eh_frame(&self) -> EhFrame<Slice<'_>> {
        EhFrame::new(&self.eh_frame.bytes, LittleEndian)
    }

    fn with_fde<'a, T>(
        &'a self,
        address: u64,
        use_it: impl FnOnce(&EhFrame<Slice<'a>>, &BaseAddresses, Fde<'a>) -> gimli::Result<T>,
    ) -> gimli::Result<T> {
        let bases = BaseAddresses::default()
            .set_eh_frame(self.eh_frame.address)
            .set_eh_frame_hdr(self.eh_frame_header.address);
        let eh_frame = EhFrame::new(&self.eh_frame.bytes, LittleEndian);
        let header = EhFrameHdr::new(&self.eh_frame_header.bytes, LittleEndian);
        let from = EhFrame::cie_from_offset;
        let header = header.parse(&bases, 8);
        if let Ok(header) = &header
            && let Some(table) = header.table()
        {
            let fde = table.fde_for_address(&eh_frame, &bases, address, from)?;
            return use_it(&eh_frame, &bases, fde);
        }
        // Without the search table the section is read from its start.
        let mut entries = eh_frame.entries(&bases);
        while let Some(entry) = entries.next()? {
            let CieOrFde::Fde(partial) = entry else { continue };
            let fde = partial.parse(from)?;
            if fde.contains(address) {
                return use_it(&eh_frame, &bases, fde);
            }
        }
        Err(gimli::Error::NoUnwindInfoForAddress)
    }
}

/// Compressed symbols that some distributions (Fedora, RHEL) keep in the file.
fn mini_debug_info(file: &ElfFile64<'_>) -> Option<Vec<u8>> {
    let section = file.section_by_name(".gnu_debugdata")?;
    let mut unpacked = Vec::new();
    // Data that cannot be decompressed yields no names.
    liblzma::read::XzDecoder::new(section.data().ok()?).read_to_end(&mut unpacked).ok()?;
    Some(unpacked)
}

/// Paths where distributions, and debuginfod's client, store the symbols of a stripped file.
fn debug_paths(build_id: &[u8]) -> Vec<PathBuf> {
    let hex: String = build_id.iter().map(|byte| format!("{byte:02x}")).collect();
    let Some((first, rest)) = hex.split_at_checked(2) else { return Vec::new() };
    let mut paths = vec![format!("/usr/lib/debug/.build-id/{first}/{rest}.debug").into()];
    if let Some(home) = std::env::var_os("HOME") {
        let cache = PathBuf::from(home).join(".cache/debuginfod_client");
        paths.push(cache.join(hex).join("debuginfo"));
    }
    paths
}

/// The contents of a file, or why they cannot be read.
///
/// # Errors
/// The file cannot be read.
pub fn contents(path: &PathBuf) -> io::Result<Vec<u8>> {
    // A device can be mapped, too, and reading it may never end.
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::other("not a file"));
    }
    fs::read(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_ourselves() -> Image {
        let data = contents(&"/proc/self/exe".into()).expect("our own program");
        Image::parse(&data, &|_| None).expect("an ELF file")
    }

    #[test]
    fn knows_its_own_functions() {
        let image = of_ourselves();
        let maps = crate::maps::executable(std::process::id() as i32).expect("our maps");
        let here = knows_its_own_functions as fn() as usize as u64;
        let map = maps.iter().find(|map| map.start <= here && here < map.end).expect("our code");
        let address = image.address_of_offset(here - map.start + map.offset).expect("an address");
        let (start, name) = image.function(address + 1);
        assert_eq!(start, Some(address));
        let name = crate::symbols::readable(name.expect("a name"));
        assert!(name.ends_with("knows_its_own_functions"), "{name}");
        assert!(image.row(address).is_ok());
    }

    #[test]
    fn without_a_table_of_contents_it_finds_the_same() {
        let mut image = of_ourselves();
        let (address, _) = image.symbols.find(image.segments[0].2 + 0x10000).unwrap_or_default();
        let address = if address == 0 { image.first_function() } else { address };
        let with = image.row(address).expect("a row");
        image.eh_frame_header = Section::default();
        let without = image.row(address).expect("the same row");
        assert_eq!(format!("{with:?}"), format!("{without:?}"));
    }

    #[test]
    fn debug_files_are_found_by_build_id() {
        let paths = debug_paths(&[0xab, 0xcd, 0xef]);
        assert_eq!(paths[0], PathBuf::from("/usr/lib/debug/.build-id/ab/cdef.debug"));
        assert!(debug_paths(&[]).is_empty());
    }

    impl Image {
        fn first_function(&self) -> u64 {
            (0..u64::MAX)
                .step_by(16)
                .find(|address| self.row(*address).is_ok())
                .expect("a function somewhere")
        }
    }
}
