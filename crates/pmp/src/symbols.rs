//! Names of functions.

use object::read::elf::{ElfFile64, ElfSymbol64};
use object::{Object as _, ObjectSection as _, ObjectSymbol as _, SymbolKind};

/// Functions of one file by the file's own addresses.
#[derive(Debug, Default)]
pub struct Symbols {
    /// Sorted by start; one per start.
    functions: Vec<Function>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Function {
    start: u64,
    /// End address (exclusive).
    end: u64,
    global: bool,
    name: String,
}

/// Functions that glibc hides, and an exported one that ends with a jump to them. Without debug
/// symbols their frames would have no name, and a known pattern depends on it.
const REACHED_BY_JUMP: [(&str, &str); 1] = [("localtime_r", "__tz_convert")];

impl Symbols {
    /// Adds all named functions of `file`.
    pub fn add(&mut self, file: &ElfFile64<'_>) {
        let count = self.functions.len();
        self.functions.extend(file.symbols().filter_map(|symbol| function(&symbol)));
        self.functions.extend(file.dynamic_symbols().filter_map(|symbol| function(&symbol)));
        if self.functions.len() > count {
            self.tidy();
        }
    }

    /// Adds functions that exported ones jump to, if the code of `file` shows it.
    pub fn add_reached_by_jump(&mut self, file: &ElfFile64<'_>) {
        for (exported, hidden) in REACHED_BY_JUMP {
            let Some(target) = self.jump_target(file, exported) else { continue };
            if self.find(target).is_none() {
                // Its end is unknown; the unwind table limits it, see `Image::function`.
                let function =
                    Function { start: target, end: target + 1, global: false, name: hidden.into() };
                self.functions.push(function);
            }
        }
        self.tidy();
    }

    /// The target of a function's last instruction, if that is a jump.
    fn jump_target(&self, file: &ElfFile64<'_>, name: &str) -> Option<u64> {
        let Function { start, end, .. } = self.functions.iter().find(|f| f.name == name)?;
        let section = file.sections().find(|section| {
            section.address() <= *start && *end <= section.address() + section.size()
        })?;
        let code = section.data_range(*start, end.checked_sub(*start)?).ok()??;
        // `e9` and a displacement from the end of the instruction: jmp rel32.
        let [.., 0xe9, a, b, c, d] = code else { return None };
        Some(end.wrapping_add_signed(i64::from(i32::from_le_bytes([*a, *b, *c, *d]))))
    }

    /// The function at `address`: its start and its name as in the file.
    pub fn find(&self, address: u64) -> Option<(u64, &str)> {
        let after = self.functions.partition_point(|function| function.start <= address);
        let function = self.functions.get(after.checked_sub(1)?)?;
        (address < function.end).then_some((function.start, &function.name))
    }

    /// Number of functions.
    pub fn count(&self) -> usize {
        self.functions.len()
    }

    fn tidy(&mut self) {
        // If an address has several names, the most usual one.
        self.functions.sort_by(|a, b| a.order().cmp(&b.order()));
        self.functions.dedup_by_key(|function| function.start);
        // Assembler functions may have no size: they extend to the next one.
        for index in 0..self.functions.len() {
            if self.functions[index].end == self.functions[index].start {
                let next = self.functions.get(index + 1).map_or(u64::MAX, |next| next.start);
                self.functions[index].end = next;
            }
        }
    }
}

impl Function {
    fn order(&self) -> (u64, usize, bool, usize, &str) {
        let underscores = self.name.bytes().take_while(|byte| *byte == b'_').count();
        // A mangled name begins with `_Z` and is not a hidden one.
        let underscores = if self.name.starts_with("_Z") { 0 } else { underscores };
        (self.start, underscores, !self.global, self.name.len(), &self.name)
    }
}

fn function(symbol: &ElfSymbol64<'_, '_>) -> Option<Function> {
    if symbol.kind() != SymbolKind::Text || symbol.is_undefined() {
        return None;
    }
    let name = symbol.name().ok().filter(|name| !name.is_empty())?;
    let start = symbol.address();
    Some(Function {
        start,
        end: start.checked_add(symbol.size())?,
        global: symbol.is_global(),
        // `pthread_cond_wait@GLIBC_2.2.5`
        name: name.split('@').next().unwrap_or(name).to_owned(),
    })
}

/// A readable name, without parameters.
pub fn readable(name: &str) -> String {
    if let Ok(rust) = rustc_demangle::try_demangle(name) {
        return format!("{rust:#}");
    }
    let options = cpp_demangle::DemangleOptions::new().no_params().no_return_type();
    match cpp_demangle::Symbol::new(name).map(|symbol| symbol.demangle_with_options(&options)) {
        Ok(Ok(cpp)) => cpp,
        // A name of C.
        _ => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn function(start: u64, end: u64, global: bool, name: &str) -> Function {
        Function { start, end, global, name: name.to_owned() }
    }

    #[test]
    fn an_address_between_functions_has_no_name() {
        let mut symbols = Symbols {
            functions: vec![function(30, 30, true, "asm"), function(10, 20, true, "first")],
        };
        symbols.tidy();
        assert_eq!(symbols.find(9), None);
        assert_eq!(symbols.find(10), Some((10, "first")));
        assert_eq!(symbols.find(19), Some((10, "first")));
        assert_eq!(symbols.find(20), None);
        assert_eq!(symbols.find(1000), Some((30, "asm")));
    }

    #[test]
    fn the_usual_one_of_several_names_is_used() {
        let mut symbols = Symbols {
            functions: vec![
                function(10, 20, true, "__poll"),
                function(10, 20, false, "poll_local"),
                function(10, 20, true, "poll"),
            ],
        };
        symbols.tidy();
        assert_eq!(symbols.find(15), Some((10, "poll")));
    }

    #[test]
    fn names_lose_their_mangling_and_parameters() {
        let cpp = "_ZN13MYSQL_BIN_LOG23trx_group_commit_leaderEPNS_18group_commit_entryE";
        assert_eq!(readable(cpp), "MYSQL_BIN_LOG::trx_group_commit_leader");
        assert_eq!(readable("_Z10do_commandP3THDb"), "do_command");
        assert_eq!(readable("_ZN5tacho4tail3run17h0123456789abcdefE"), "tacho::tail::run");
        assert_eq!(readable("poll"), "poll");
    }
}
