//! Functions of at most 80 lines, files of at most 500.

use syn::visit::{self, Visit};

use crate::tree::{File, is_generated};
use crate::{Extent, Finding};

const FUNCTION_LINES: usize = 80;
const FUNCTION_WHY: &str = "a function that fits a screen can be reviewed at once; cut it where \
                            its comments cut it already";
const FILE_LINES: usize = 500;
const FILE_WHY: &str = "a file has one subject; a longer one has a second that deserves a name";

/// A file that is too long.
pub fn check_file(file: &File) -> Option<Extent> {
    let size = file.text.lines().count();
    let is_code = file.is(&["rs", "cc", "c", "h", "py", "sh"]);
    if !is_code || size <= FILE_LINES || is_generated(&file.path) {
        return None;
    }
    let what = format!("{size} lines, more than {FILE_LINES}");
    let finding = Finding { path: file.path.clone(), line: 1, what, why: FILE_WHY };
    Some(Extent { name: file.path.clone(), size, findings: vec![finding] })
}

/// The functions of a file that are too long.
pub fn check_functions(file: &File) -> Vec<Extent> {
    let functions = match file.extension() {
        "rs" => rust(&file.text),
        "cc" | "c" | "h" => cpp(&file.text),
        _ => return Vec::new(),
    };
    let place = |function: Function| {
        let what =
            format!("{} has {} lines, more than {FUNCTION_LINES}", function.name, function.lines);
        let finding =
            Finding { path: file.path.clone(), line: function.first, what, why: FUNCTION_WHY };
        let name = format!("{} {}", file.path, function.name);
        Extent { name, size: function.lines, findings: vec![finding] }
    };
    functions.into_iter().filter(|function| function.lines > FUNCTION_LINES).map(place).collect()
}

#[derive(Debug, PartialEq, Eq)]
struct Function {
    name: String,
    first: usize,
    lines: usize,
}

/// The functions of a Rust file, without their attributes and documentation. Functions
/// that macros make are not found. A file that does not parse has none; rustfmt reports it.
fn rust(text: &str) -> Vec<Function> {
    let mut functions = RustFunctions(Vec::new());
    if let Ok(file) = syn::parse_file(text) {
        functions.visit_file(&file);
    }
    functions.0
}

struct RustFunctions(Vec<Function>);

impl RustFunctions {
    fn add(&mut self, signature: &syn::Signature, block: &syn::Block) {
        let first = signature.fn_token.span.start().line;
        let last = block.brace_token.span.close().end().line;
        let name = signature.ident.to_string();
        self.0.push(Function { name, first, lines: last - first + 1 });
    }
}

impl<'ast> Visit<'ast> for RustFunctions {
    fn visit_item_fn(&mut self, function: &'ast syn::ItemFn) {
        self.add(&function.sig, &function.block);
        visit::visit_item_fn(self, function);
    }

    fn visit_impl_item_fn(&mut self, function: &'ast syn::ImplItemFn) {
        self.add(&function.sig, &function.block);
        visit::visit_impl_item_fn(self, function);
    }

    fn visit_trait_item_fn(&mut self, function: &'ast syn::TraitItemFn) {
        if let Some(block) = &function.default {
            self.add(&function.sig, block);
        }
        visit::visit_trait_item_fn(self, function);
    }
}

/// The functions of a C++ file that clang-format has formatted: a block whose first lines have a
/// parenthesis and whose last is a brace as far to the right as the first line. Lambdas and control
/// flow are parts of the function around them.
fn cpp(text: &str) -> Vec<Function> {
    let lines: Vec<&str> = text.lines().collect();
    let mut functions = Vec::new();
    for (last_of_head, line) in lines.iter().enumerate() {
        if !line.ends_with('{') || line.trim_start().starts_with(['}', '/', '#']) {
            continue;
        }
        let first = first_of_head(&lines, last_of_head);
        let indent = lines[first].len() - lines[first].trim_start().len();
        let head = lines[first..=last_of_head].join(" ");
        let Some(name) = cpp_name(&head) else { continue };
        let is_end = |line: &&str| {
            line.len() > indent
                && line[..indent].trim().is_empty()
                && line[indent..].starts_with('}')
        };
        let Some(length) = lines[last_of_head..].iter().position(is_end) else {
            continue;
        };
        let count = last_of_head + length - first + 1;
        functions.push(Function { name, first: first + 1, lines: count });
    }
    functions
}

/// The line where the declaration begins that ends in line `last`.
fn first_of_head(lines: &[&str], last: usize) -> usize {
    let belongs = |line: &&str| {
        let line = line.trim_end();
        !line.is_empty()
            && !line.ends_with([';', '{', '}', ':', '\\'])
            && !line.trim_start().starts_with(['#', '/', '*'])
    };
    let above = lines[..last].iter().rev().take_while(|line| belongs(line)).count();
    last - above
}

/// The name of the function that `head` declares, if it does.
fn cpp_name(head: &str) -> Option<String> {
    const OTHERS: &[&str] = &[
        "if",
        "for",
        "while",
        "switch",
        "do",
        "else",
        "catch",
        "return",
        "namespace",
        "extern",
        "class",
        "struct",
        "enum",
        "union",
        "static_assert",
    ];
    let (before, _) = head.split_once('(')?;
    let first = before.split_whitespace().next()?;
    let name = before.rsplit([' ', '*', '&']).next()?;
    // `extern "C" int f() {` and `struct x f() {` are functions; so is no initialiser or lambda.
    let is_other = OTHERS.contains(&name) || (OTHERS.contains(&first) && !before.contains('"'));
    let is_name =
        name.chars().all(|c| c.is_alphanumeric() || "_:~".contains(c)) && !name.is_empty();
    (is_name && !is_other && !before.contains('=')).then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(line: &str, count: usize) -> String {
        format!("{line}\n").repeat(count)
    }

    fn names(path: &str, text: &str) -> Vec<(String, usize)> {
        let places = check_functions(&File::new(path, text));
        places.into_iter().map(|place| (place.name, place.size)).collect()
    }

    #[test]
    fn a_long_rust_function_is_found() {
        let statements = body("    call();", 79);
        let text =
            format!("/// Not counted.\n#[test]\nfn long(\n) {{\n{statements}}}\nfn short() {{}}\n");
        assert_eq!(names("a.rs", &text), [("a.rs long".to_owned(), 82)]);
        let finding = &check_functions(&File::new("a.rs", &text))[0].findings[0];
        assert_eq!((finding.line, finding.what.as_str()), (3, "long has 82 lines, more than 80"));
        let text = format!("impl X {{\nfn method() {{\n{statements}}}\n}}\n");
        assert_eq!(names("a.rs", &text), [("a.rs method".to_owned(), 81)]);
        let text = format!("trait X {{\nfn given() {{\n{statements}}}\nfn open();\n}}\n");
        assert_eq!(names("a.rs", &text), [("a.rs given".to_owned(), 81)]);
    }

    #[test]
    fn eighty_lines_are_not_too_long() {
        let text = format!("fn fits() {{\n{}}}\n", body("    let brace = \"}\";", 78));
        assert_eq!(names("a.rs", &text), []);
        assert_eq!(rust(&text)[0].lines, 80);
    }

    #[test]
    fn a_long_cpp_function_is_found() {
        let statements = body("    if (a) {\n        call();\n    }", 30);
        let text = format!("// x\nstatic int long_one(int a,\n    int b) {{\n{statements}}}\n");
        assert_eq!(names("a.cc", &text), [("a.cc long_one".to_owned(), 93)]);
        let text = format!("extern \"C\" void f() noexcept {{\n{statements}}}\n");
        assert_eq!(names("a.cc", &text), [("a.cc f".to_owned(), 92)]);
        let text = format!("namespace {{\nclass X {{\n  void m() {{\n{statements}  }}\n}};\n}}\n");
        assert_eq!(names("a.h", &text), [("a.h m".to_owned(), 92)]);
    }

    #[test]
    fn other_blocks_of_cpp_are_no_functions() {
        let lines = body("    {1, 2},", 90);
        assert_eq!(names("a.cc", &format!("const int table[] = {{\n{lines}}};\n")), []);
        assert_eq!(names("a.cc", &format!("const int table[size(1)] = {{\n{lines}}};\n")), []);
        assert_eq!(names("a.cc", &format!("namespace {{\n{lines}}}\n")), []);
        assert_eq!(names("a.cc", &format!("    if (a) {{\n{lines}    }}\n")), []);
    }

    #[test]
    fn a_long_file_is_found() {
        let place = check_file(&File::new("a.rs", &body("//", 501))).unwrap();
        assert_eq!((place.name.as_str(), place.size), ("a.rs", 501));
        assert_eq!(check_file(&File::new("a.rs", &body("//", 500))), None);
        assert_eq!(check_file(&File::new("a.json", &body("//", 501))), None);
    }
}
