//! What a user's SQL may refer to: the views, and functions without effects.
//!
//! DuckDB itself is locked down (see `worker`); this is the second lock. It looks at the syntax
//! tree that DuckDB's own parser gives, so both read the text alike.

use std::collections::BTreeSet;

use serde_json::Value;

/// Functions that may stand for a table.
const TABLE_FUNCTIONS: &[&str] = &["generate_series", "json_each", "json_tree", "range", "unnest"];

/// Functions that may not be used, or beginnings of their names that end with `_`.
const FORBIDDEN: &[&str] = &[
    "current_setting",
    "currval",
    "duckdb_",
    "getenv",
    "getvariable",
    "glob",
    "nextval",
    "parquet_",
    "pg_",
    "pragma_",
    "query",
    "query_table",
    "read_",
    "sleep_ms",
    "sniff_csv",
    "time_histogram",
    "which_secret",
    "write_log",
];

/// Why a query is not executed.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// DuckDB cannot parse it, or it is not a `SELECT`: DuckDB's words.
    #[error("{0}")]
    Syntax(String),
    /// More than one statement, or none.
    #[error("one SELECT is expected, not {0} statements")]
    Count(usize),
    /// A table that is not one of the views.
    #[error("there is no table {0:?}: queries read the view `records`")]
    Table(String),
    /// A function that may not be used.
    #[error("the function {0} is not available")]
    Function(String),
    /// A kind of table expression that may not be used.
    #[error("{0} is not available")]
    Kind(String),
}

/// Checks the syntax tree of a query, as `json_serialize_sql` gives it. `views`: the tables that
/// exist.
///
/// # Errors
/// The first thing that is not allowed.
pub fn check(tree: &str, views: &[&str]) -> Result<(), Refusal> {
    let tree: Value =
        serde_json::from_str(tree).map_err(|error| Refusal::Syntax(error.to_string()))?;
    if tree["error"] != Value::Bool(false) {
        let message = tree["error_message"].as_str().unwrap_or("the SQL cannot be parsed");
        return Err(Refusal::Syntax(message.to_owned()));
    }
    let statements = tree["statements"].as_array().map_or(0, Vec::len);
    if statements != 1 {
        return Err(Refusal::Count(statements));
    }
    let mut names: BTreeSet<String> = views.iter().map(|&view| view.to_owned()).collect();
    collect_names(&tree, &mut names);
    walk(&tree, &names)
}

/// Names that `WITH` gives. One that could be a file or a table of the system is none.
fn collect_names(node: &Value, names: &mut BTreeSet<String>) {
    if let Some(entries) = node.pointer("/cte_map/map").and_then(Value::as_array) {
        let keys = entries.iter().filter_map(|entry| entry["key"].as_str());
        names.extend(keys.filter(|key| is_plain(key)).map(str::to_lowercase));
    }
    // Recursive ones refer to themselves by this name.
    if let Some(name) = node.get("ctename").and_then(Value::as_str).filter(|name| is_plain(name)) {
        names.insert(name.to_lowercase());
    }
    children(node).for_each(|child| collect_names(child, names));
}

fn is_plain(name: &str) -> bool {
    let lower = name.to_lowercase();
    let is_systems =
        ["duckdb_", "pragma_", "sqlite_", "pg_"].iter().any(|it| lower.starts_with(it));
    !is_systems && name.chars().all(|c| c.is_alphanumeric() || c == '_')
}

fn children(node: &Value) -> Box<dyn Iterator<Item = &Value> + '_> {
    match node {
        Value::Array(items) => Box::new(items.iter()),
        Value::Object(members) => Box::new(members.values()),
        _ => Box::new(std::iter::empty()),
    }
}

fn walk(node: &Value, names: &BTreeSet<String>) -> Result<(), Refusal> {
    let text = |key: &str| node.get(key).and_then(Value::as_str);
    match text("type") {
        Some("TABLE_FUNCTION") => {
            let function = node.pointer("/function/function_name").and_then(Value::as_str);
            let function = function.unwrap_or("?").to_lowercase();
            if !TABLE_FUNCTIONS.contains(&&*function) {
                return Err(Refusal::Function(function));
            }
        }
        Some(kind @ ("SHOW_REF" | "COLUMN_DATA" | "PIVOT" | "BOUND_TABLE_REF")) => {
            return Err(Refusal::Kind(kind.to_lowercase()));
        }
        _ => {}
    }
    if let (Some(table), Some(schema)) = (text("table_name"), text("schema_name"))
        && node.get("catalog_name").is_some()
    {
        let is_ours = matches!(schema, "" | "main") && names.contains(&table.to_lowercase());
        if !is_ours || text("catalog_name") != Some("") {
            return Err(Refusal::Table(table.to_owned()));
        }
    }
    if let Some(function) = text("function_name") {
        let lower = function.to_lowercase();
        let is_forbidden = FORBIDDEN.iter().any(|&name| match name.ends_with('_') {
            true => lower.starts_with(name),
            false => lower == name,
        });
        if is_forbidden {
            return Err(Refusal::Function(function.to_owned()));
        }
    }
    children(node).try_for_each(|child| walk(child, names))
}
