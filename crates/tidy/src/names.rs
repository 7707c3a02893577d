//! One name for one thing: a type's name is declared a few times at most.

use std::collections::BTreeMap;

use syn::visit::{self, Visit};

use crate::tree::File;
use crate::{Extent, Finding};

/// Declarations of one name in all crates. The compiler tells them apart by their modules; a search
/// for the name does not.
const DECLARATIONS_MAX: usize = 4;
/// Names that say nothing of their own: each may be declared once.
const VAGUE: &[&str] =
    &["Data", "Found", "Info", "Item", "Manager", "Place", "Recorder", "Source", "State", "Thing"];
const WHY: &str = "one name for one thing; say what it is a state, a source or a part of";

/// The names that are declared too often outside of tests.
pub fn check(files: &[File]) -> Vec<Extent> {
    let mut declared = BTreeMap::<String, Vec<Finding>>::new();
    for file in files.iter().filter(|file| file.extension() == "rs" && !is_test(&file.path)) {
        let mut types = Types(Vec::new());
        if let Ok(parsed) = syn::parse_file(&file.text) {
            types.visit_file(&parsed);
        }
        for name in types.0 {
            let what = format!("declares another type {name}");
            let line = name.span().start().line;
            let finding = Finding { path: file.path.clone(), line, what, why: WHY };
            declared.entry(name.to_string()).or_default().push(finding);
        }
    }
    let extent = |(name, findings): (String, Vec<Finding>)| {
        let size = findings.len();
        let limit = if VAGUE.contains(&name.as_str()) { 1 } else { DECLARATIONS_MAX };
        (size > limit).then_some(Extent { name, size, findings })
    };
    declared.into_iter().filter_map(extent).collect()
}

fn is_test(path: &str) -> bool {
    path.contains("/tests/") || path.ends_with("tests.rs") || path.starts_with("tests/")
}

/// Names of structs, enums and traits.
struct Types(Vec<syn::Ident>);

impl<'ast> Visit<'ast> for Types {
    fn visit_item_mod(&mut self, module: &'ast syn::ItemMod) {
        if module.ident != "tests" {
            visit::visit_item_mod(self, module);
        }
    }

    fn visit_item_struct(&mut self, item: &'ast syn::ItemStruct) {
        self.0.push(item.ident.clone());
    }

    fn visit_item_enum(&mut self, item: &'ast syn::ItemEnum) {
        self.0.push(item.ident.clone());
    }

    fn visit_item_trait(&mut self, item: &'ast syn::ItemTrait) {
        self.0.push(item.ident.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names_of(texts: &[&str]) -> Vec<String> {
        let file = |(number, text): (usize, &&str)| {
            File::new(&format!("crates/x/src/file{number}.rs"), text)
        };
        let files: Vec<File> = texts.iter().enumerate().map(file).collect();
        check(&files).into_iter().map(|it| format!("{} {}", it.name, it.size)).collect()
    }

    #[test]
    fn a_vague_name_is_declared_once_and_any_other_four_times() {
        assert!(names_of(&["struct State;", "struct Step;"]).is_empty());
        assert_eq!(names_of(&["struct State;", "enum State { A }"]), ["State 2"]);
        let step = "pub trait Step {}";
        assert!(names_of(&[step; 4]).is_empty());
        assert_eq!(names_of(&[step; 5]), ["Step 5"]);
    }

    #[test]
    fn types_of_tests_do_not_count() {
        let test = "#[cfg(test)] mod tests { struct State; }";
        assert!(names_of(&["struct State;", test]).is_empty());
    }
}
