//! Every check of this crate on the files of the repository.

use tacho_tidy::changed::Changed;
use tacho_tidy::ratchet::Ratchet;
use tacho_tidy::{Extent, Finding, count, tree};
use tacho_tidy::{
    dependencies, length, manifests, names, orderings, paths, releases, server_tabs, width,
    wording, zone,
};

/// Fails with one line for each message.
fn assert_none(messages: Vec<String>) {
    assert!(messages.is_empty(), "{} lines:\n{}", messages.len(), messages.join("\n"));
}

fn assert_no_finding(findings: impl IntoIterator<Item = Finding>) {
    assert_none(findings.into_iter().map(|finding| finding.to_string()).collect());
}

fn assert_within(ratchet: &str, places: &[Extent]) {
    assert_none(Ratchet::new(ratchet).compare(places, &Changed::from_git()));
}

#[test]
fn lines_are_at_most_100_columns() {
    let files = tree::files();
    let findings = files.iter().flat_map(width::check);
    assert_within("width", &count(findings.map(|finding| (finding.path.clone(), finding))));
}

#[test]
fn functions_are_at_most_80_lines() {
    let places = tree::files().iter().flat_map(length::check_functions).collect::<Vec<_>>();
    assert_within("functions", &places);
}

#[test]
fn files_are_at_most_500_lines() {
    let places = tree::files().iter().filter_map(length::check_file).collect::<Vec<_>>();
    assert_within("files", &places);
}

#[test]
fn a_type_has_a_name_of_its_own() {
    assert_within("names", &names::check(&tree::files()));
}

#[test]
fn no_wording_comes_back() {
    let places = count(tree::files().iter().flat_map(wording::check));
    assert_within("wording", &places);
}

#[test]
fn crate_roots_and_adapter_files_name_their_zone() {
    assert_no_finding(tree::files().iter().filter_map(zone::check));
}

#[test]
fn query_threads_run_no_crate_that_is_not_listed() {
    assert_none(dependencies::check_hot());
}

#[test]
fn servers_load_no_crate_that_is_not_listed() {
    assert_none(dependencies::check_cold());
}

#[test]
fn paths_that_documents_name_exist() {
    let files = tree::files();
    let names = tree::names();
    let paths = paths::Paths::new(names.iter().map(String::as_str));
    assert_no_finding(files.iter().flat_map(|file| paths.check(file)));
}

#[test]
fn crates_inherit_the_lints_of_the_workspace() {
    assert_no_finding(tree::files().iter().filter_map(manifests::check));
}

#[test]
fn one_header_tests_the_release_of_the_server() {
    assert_no_finding(tree::files().iter().flat_map(releases::check));
}

#[test]
fn guides_have_a_block_for_each_server() {
    assert_no_finding(tree::files().iter().flat_map(server_tabs::check));
}

#[test]
fn memory_orderings_name_their_partner() {
    assert_no_finding(tree::files().iter().flat_map(orderings::check));
}
