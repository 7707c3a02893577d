//! `tacho-hub token …`

use crate::audit::Maker;
use crate::cli::TokenCreateArgs;
use crate::clock::now_us;
use crate::data::DataDirectory;
use crate::database::Database;
use crate::roles::Scope;
use crate::tokens::{self, TokenGrant};

const DAY_US: i64 = 86_400 * 1_000_000;

/// Makes a token and returns its text.
///
/// # Errors
/// The grant is not allowed, or the database fails.
pub fn create(args: &TokenCreateArgs) -> anyhow::Result<String> {
    let data = DataDirectory::open(&args.data.directory)?;
    let database = Database::open(&data.database())?;
    let servers = args.servers.clone();
    let scope = if servers.is_empty() { Scope::All } else { Scope::Servers(servers) };
    let name = args.name.clone().unwrap_or_else(|| match args.servers.as_slice() {
        [server] => format!("{} {server}", args.role),
        _ => args.role.to_string(),
    });
    let now_us = now_us();
    let expires_us = args.days.map(|days| now_us + i64::from(days) * DAY_US);
    let grant = TokenGrant { name, roles: args.role, scope, expires_us };
    let by = Maker::command("token create");
    Ok(tokens::create(&database, &grant, &by, now_us)?)
}
