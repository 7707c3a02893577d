//! Zone: outside. The names of functions in a stripped file.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use object::{Object as _, ObjectSymbol as _};
use tacho_pmp::image::Image;

const SOURCE: &str = "static int __attribute__((noinline)) hidden(int x) { return x * 7 + 1; }\n\
                      int main(int argc, char **argv) { (void)argv; return hidden(argc); }\n";

fn run(directory: &Path, program: &str, arguments: &[&str]) {
    let status = Command::new(program).args(arguments).current_dir(directory).status();
    assert!(
        status.unwrap_or_else(|e| panic!("{program}: {e}")).success(),
        "{program} {arguments:?}"
    );
}

/// A program with symbols, and the address of its hidden function.
fn build(directory: &Path) -> (Vec<u8>, u64) {
    fs::write(directory.join("p.c"), SOURCE).expect("writing the source");
    run(directory, "cc", &["-O1", "-Wl,--build-id=0xabcdef0123", "-o", "full", "p.c"]);
    let data = fs::read(directory.join("full")).expect("the program");
    let file = object::File::parse(&*data).expect("an ELF file");
    let symbol = file.symbols().find(|s| s.name() == Ok("hidden")).expect("the function");
    let address = symbol.address();
    (data, address)
}

#[test]
fn a_stripped_file_has_places_instead_of_names() {
    let directory = tempfile::tempdir().expect("a directory");
    let (_, address) = build(directory.path());
    run(directory.path(), "strip", &["-o", "stripped", "full"]);
    let data = fs::read(directory.path().join("stripped")).expect("the program");
    let image = Image::parse(&data, &|_| None).expect("an ELF file");
    // The unwind table still has the start of the function.
    assert_eq!(image.function(address + 1), (Some(address), None));
}

#[test]
fn a_debug_file_gives_names_by_build_id() {
    let directory = tempfile::tempdir().expect("a directory");
    let (full, address) = build(directory.path());
    run(directory.path(), "strip", &["-o", "stripped", "full"]);
    let data = fs::read(directory.path().join("stripped")).expect("the program");
    let expected = PathBuf::from("/usr/lib/debug/.build-id/ab/cdef0123.debug");
    let image = Image::parse(&data, &|path| (*path == expected).then(|| full.clone()));
    let image = image.expect("an ELF file");
    assert_eq!(image.function(address + 1), (Some(address), Some("hidden")));
}

#[test]
fn symbols_packed_into_the_file_give_names() {
    let directory = tempfile::tempdir().expect("a directory");
    let (_, address) = build(directory.path());
    run(directory.path(), "strip", &["-o", "stripped", "full"]);
    run(directory.path(), "objcopy", &["--only-keep-debug", "full", "mini"]);
    let mini = fs::read(directory.path().join("mini")).expect("the symbols");
    let packed = fs::File::create(directory.path().join("mini.xz")).expect("a file");
    let mut encoder = liblzma::write::XzEncoder::new(packed, 6);
    encoder.write_all(&mini).and_then(|()| encoder.finish()).expect("packing");
    let section = ["--add-section", ".gnu_debugdata=mini.xz", "stripped", "packed"];
    run(directory.path(), "objcopy", &section);
    let data = fs::read(directory.path().join("packed")).expect("the program");
    let image = Image::parse(&data, &|_| None).expect("an ELF file");
    assert_eq!(image.function(address + 1), (Some(address), Some("hidden")));
}

/// Debian's C library, whose only symbols are the exported ones, if its debug package is not
/// installed: here the package must not be read.
#[test]
fn the_function_under_the_time_zone_lock_is_found_by_a_jump_to_it() {
    let maps = tacho_pmp::maps::executable(std::process::id() as i32).expect("our maps");
    let libc = maps.iter().find(|map| map.path.ends_with("/libc.so.6")).expect("the C library");
    let data = fs::read(&libc.path).expect("the C library");
    let image = Image::parse(&data, &|_| None).expect("an ELF file");
    let file = object::File::parse(&*data).expect("an ELF file");
    let exported = file.dynamic_symbols().find(|s| s.name() == Ok("localtime_r")).expect("it");
    let address = exported.address();
    assert_eq!(image.function(address).1, Some("localtime_r"));
    // If the package is installed, it has the expected name.
    let debug = |path: &PathBuf| fs::read(path).ok();
    let with_debug = Image::parse(&data, &debug).expect("an ELF file");
    let jump = &data[usize::try_from(image_offset(&file, address)).expect("an offset")..];
    let end = exported.size() as usize;
    assert_eq!(jump[end - 5], 0xe9, "localtime_r does not end with a jump here");
    let distance = i32::from_le_bytes(jump[end - 4..end].try_into().expect("four bytes"));
    let target = (address + exported.size()).wrapping_add_signed(i64::from(distance));
    assert_eq!(image.function(target + 20), (Some(target), Some("__tz_convert")));
    if with_debug.symbol_count() > image.symbol_count() {
        assert_eq!(with_debug.function(target + 20), (Some(target), Some("__tz_convert")));
    }
}

fn image_offset(file: &object::File<'_>, address: u64) -> u64 {
    use object::ObjectSegment as _;
    let segment = file.segments().find(|segment| {
        segment.address() <= address && address < segment.address() + segment.size()
    });
    let segment = segment.expect("a segment");
    address - segment.address() + segment.file_range().0
}
