//! Whether the demonstration shows what it promises.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result};
use serde_json::{Value, json};
use tacho_tests::hub::HubClient;

/// Alerts that the past day has: rule, server.
const ALERTS: [(&str, &str); 3] =
    [("lost", "billing-db1"), ("logging_off", "billing-db1"), ("recorder_stopped", "staging-db1")];
/// Searches that find something.
const SEARCHES: [&str; 5] = [
    "event:connect_failed errno:1045",
    "outcome:interrupted",
    "time:>30s",
    "rows_sent:>100000",
    "event:lost",
];

/// What was found.
pub struct DemoState {
    /// Records of each server.
    pub records: BTreeMap<String, u64>,
    /// Open alerts, as `rule server`.
    pub alerts: Vec<String>,
    /// What is not as it should be.
    pub problems: Vec<String>,
}

/// The states of all servers.
pub fn servers(client: &HubClient) -> Result<Vec<Value>> {
    let servers = client.get("/api/v1/servers", &[])?;
    servers.as_array().cloned().context("a list of servers")
}

/// Compares the hub with the lines of the logs.
pub fn check(client: &HubClient, lines: &BTreeMap<String, u64>) -> Result<DemoState> {
    let mut found =
        DemoState { records: BTreeMap::new(), alerts: Vec::new(), problems: Vec::new() };
    for server in servers(client)? {
        let name = server["server"].as_str().context("the name of a server")?;
        let records = server["records"].as_u64().context("a number of records")?;
        found.records.insert(name.to_owned(), records);
        if server["seal"] != "sealed" {
            found.problems.push(format!("{name} is not sealed: {server}"));
        }
    }
    for (name, count) in lines {
        let records = found.records.get(name).copied().unwrap_or(0);
        // The present adds lines.
        if records < *count {
            found.problems.push(format!("{name} has {count} lines, the hub {records} records"));
        }
    }
    let alerts = client.get("/api/v1/alerts", &[("state", "open")])?;
    for alert in alerts.as_array().context("a list of alerts")? {
        let word = |key: &str| alert[key].as_str().unwrap_or_default();
        found.alerts.push(format!("{} {}", word("rule"), word("server")));
    }
    for (rule, server) in ALERTS {
        if !found.alerts.contains(&format!("{rule} {server}")) {
            found.problems.push(format!("there is no alert {rule} of {server}"));
        }
    }
    for search in SEARCHES {
        let parameters = [("q", search), ("from", "-26h"), ("limit", "1")];
        let page = client.get("/api/v1/records", &parameters)?;
        if page["records"].as_array().is_none_or(Vec::is_empty) {
            found.problems.push(format!("the search {search} finds nothing"));
        }
    }
    Ok(found)
}

impl DemoState {
    /// For other programs.
    pub fn to_json(&self) -> Value {
        json!({ "records": self.records, "alerts": self.alerts, "problems": self.problems })
    }
}
