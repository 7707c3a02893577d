//! One header tests the release of the server.

use crate::Finding;
use crate::tree::File;

const HEADER: &str = "adapters/common/server_compat.h";
const MACROS: &[&str] = &["MYSQL_VERSION_ID", "MARIADB_BASE_VERSION", "MARIADB_VERSION_ID"];
const WHY: &str = "adapters/common/server_compat.h is where a new release is looked at; other code \
                   tests what it finds in the running server";

/// Lines of an adapter that test the release of the server.
pub fn check(file: &File) -> Vec<Finding> {
    if !file.path.starts_with("adapters/") || !file.is(&["cc", "c", "h"]) || file.path == HEADER {
        return Vec::new();
    }
    let mut findings = Vec::new();
    for (index, line) in file.text.lines().enumerate() {
        if let Some(name) = MACROS.iter().find(|name| line.contains(**name))
            && line.starts_with('#')
        {
            let what = format!("tests {name}");
            findings.push(Finding { path: file.path.clone(), line: index + 1, what, why: WHY });
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_of_the_release_is_found_outside_the_header() {
        let text = "#include <x>\n#if MYSQL_VERSION_ID >= 110800\n";
        assert_eq!(check(&File::new("adapters/mariadb/x.cc", text))[0].line, 2);
        assert_eq!(check(&File::new(HEADER, text)), []);
    }
}
