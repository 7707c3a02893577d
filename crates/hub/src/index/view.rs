//! The part of the records that a caller may see, as parts of a query.

use tacho_query::literal;
use tacho_record::{Field, Kind};
use tacho_store::COLUMNS;

use crate::api::Caller;
use crate::audit::HUB;
use crate::roles::Scope;

/// The part of the view `records` that a caller may see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct View {
    /// Its columns, as behind `SELECT`; `None`: all as they are.
    pub columns: Option<String>,
    /// The condition that its rows meet; `None`: all.
    pub filter: Option<String>,
}

/// Whether a field can have literals of a statement: `INSERT INTO t (id) VALUES (7)` makes 7 the
/// last id.
fn has_literals(field: Field) -> bool {
    field == Field::last_insert_id
        || matches!(field.kind(), Kind::Statement | Kind::Message | Kind::Attributes | Kind::Params)
}

impl View {
    /// That of a caller.
    #[must_use]
    pub fn of(caller: &Caller) -> Self {
        let columns = (!caller.roles.may_see_statements()).then(|| {
            let of_fields = Field::ALL.iter().filter(|&&field| has_literals(field));
            let mut names: Vec<&str> = of_fields.map(|field| field.name()).collect();
            names.push("raw");
            let removed: Vec<String> = COLUMNS
                .iter()
                .filter(|column| names.contains(&column.name))
                .map(|column| match column.name {
                    "attributes" => {
                        "NULL::STRUCT(\"key\" VARCHAR, \"value\" VARCHAR)[] AS attributes"
                            .to_owned()
                    }
                    "last_insert_id" => "NULL::UBIGINT AS last_insert_id".to_owned(),
                    name => format!("NULL::VARCHAR AS \"{name}\""),
                })
                .collect();
            format!("* REPLACE ({})", removed.join(", "))
        });
        let servers = match &caller.scope {
            Scope::All => None,
            Scope::Servers(servers) if servers.is_empty() => Some("false".to_owned()),
            Scope::Servers(servers) => {
                let names: Vec<String> =
                    servers.iter().map(|server| literal(server.as_str())).collect();
                Some(format!("\"server\" IN ({})", names.join(", ")))
            }
        };
        let own =
            (!caller.roles.may_see_statements()).then(|| format!("\"server\" <> {}", literal(HUB)));
        let conditions: Vec<String> = [servers, own].into_iter().flatten().collect();
        let filter = (!conditions.is_empty()).then(|| conditions.join(" AND "));
        Self { columns, filter }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::RequestSource;
    use crate::roles::{Role, Roles};

    #[test]
    fn a_viewer_sees_no_literals_and_a_scope_is_a_filter() {
        let caller = |role: Role, scope| {
            let (user, roles) = ("x".to_owned(), Roles::from(role));
            Caller { user, roles, scope, csrf: None, source: RequestSource::default() }
        };
        let all = View::of(&caller(Role::Auditor, Scope::All));
        assert_eq!(all, View { columns: None, filter: None });
        let servers = Scope::Servers(vec!["db1".parse().unwrap()]);
        let viewer = View::of(&caller(Role::Viewer, servers));
        let columns = viewer.columns.unwrap();
        let hidden =
            "sql error rewritten_query params last_insert_id info old_value detail attributes raw";
        for name in hidden.split(' ') {
            assert!(
                columns.contains(&format!(" AS {name}"))
                    || columns.contains(&format!("\"{name}\""))
            );
        }
        let filter = "\"server\" IN ('db1') AND \"server\" <> 'tacho-hub'";
        assert_eq!(viewer.filter.as_deref(), Some(filter));
        let viewer = View::of(&caller(Role::Viewer, Scope::All));
        assert_eq!(viewer.filter.as_deref(), Some("\"server\" <> 'tacho-hub'"));
    }
}
