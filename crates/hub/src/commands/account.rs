//! `tacho-hub account …`

use std::io::{BufRead as _, Read as _};

use anyhow::Context as _;

use crate::accounts::{self, Account};
use crate::audit::Maker;
use crate::cli::AccountCreateArgs;
use crate::clock::now_us;
use crate::data::DataDirectory;
use crate::database::Database;
use crate::roles::Scope;

/// Most bytes that are read of stdin.
const LINE_MAX: u64 = 4096;

/// Makes an account, with the password from stdin.
///
/// # Errors
/// The account is not allowed or exists, or the database fails.
pub fn create(args: &AccountCreateArgs) -> anyhow::Result<()> {
    let mut password = String::new();
    let mut input = std::io::stdin().lock().take(LINE_MAX);
    input.read_line(&mut password).context("cannot read the password from stdin")?;
    let data = DataDirectory::open(&args.data.directory)?;
    let database = Database::open(&data.database())?;
    let servers = args.servers.clone();
    let scope = if servers.is_empty() { Scope::All } else { Scope::Servers(servers) };
    let account = Account { name: args.name.clone(), roles: args.role, scope };
    let by = Maker::command("account create");
    let password = password.trim_end_matches(['\r', '\n']);
    accounts::create(&database, &account, password, &by, now_us())?;
    Ok(())
}
