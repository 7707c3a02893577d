//! The changes to undo on the server, even if the run dies.
//!
//! Each entry is saved before the change is made, also in a table of the bench's own schema: a
//! bench that was killed with SIGKILL leaves the entries, and the next one, or `--restore`,
//! executes them.

use anyhow::{Context, Result, bail};

use crate::load::SCHEMA;
use tacho_sandbox::client::{Conn, Queryable};
use tacho_sandbox::dialect::is_gone;

/// Statements that undo the changes, the last first.
#[derive(Debug, Default)]
pub struct Undo {
    statements: Vec<String>,
}

/// The remains of an earlier run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EarlierRun {
    /// No schema of our name.
    Nothing,
    /// A schema that a bench has created.
    Ours,
    /// A schema with our name that no bench has created.
    Foreign,
}

/// Looks for the schema.
///
/// # Errors
/// The server reports an error.
pub fn look(conn: &mut Conn) -> Result<EarlierRun> {
    let schema: Option<String> =
        conn.query_first(format!("SHOW DATABASES LIKE '{}'", SCHEMA.replace('_', "\\_")))?;
    if schema.is_none() {
        return Ok(EarlierRun::Nothing);
    }
    let tables: Vec<String> = conn.query(format!("SHOW TABLES FROM {SCHEMA}"))?;
    // A run that died between its first two statements leaves an empty one.
    let ours = tables.is_empty() || tables.iter().any(|table| table == "undo");
    Ok(if ours { EarlierRun::Ours } else { EarlierRun::Foreign })
}

impl Undo {
    /// Creates the schema with its table of entries.
    ///
    /// # Errors
    /// The server reports an error, or the schema already exists.
    pub fn begin(conn: &mut Conn) -> Result<Self> {
        conn.query_drop(format!("CREATE DATABASE {SCHEMA} CHARACTER SET utf8mb4"))
            .with_context(|| format!("cannot create the schema {SCHEMA}"))?;
        conn.query_drop(format!(
            "CREATE TABLE {SCHEMA}.undo (id INT AUTO_INCREMENT PRIMARY KEY, statement TEXT NOT NULL)"
        ))?;
        Ok(Self::default())
    }

    /// Reads the entries of a run that was killed.
    ///
    /// # Errors
    /// They cannot be read.
    pub fn left_behind(conn: &mut Conn) -> Result<Self> {
        let has_notes: Option<String> =
            conn.query_first(format!("SHOW TABLES FROM {SCHEMA} LIKE 'undo'"))?;
        let statements = match has_notes {
            None => Vec::new(),
            Some(_) => conn.query(format!("SELECT statement FROM {SCHEMA}.undo ORDER BY id"))?,
        };
        Ok(Self { statements })
    }

    /// Saves a statement, unless it is saved already.
    ///
    /// # Errors
    /// The server reports an error; then the change must not be made.
    pub fn note(&mut self, conn: &mut Conn, statement: String) -> Result<()> {
        if !self.statements.contains(&statement) {
            let quoted = quote(&statement);
            conn.query_drop(format!("INSERT INTO {SCHEMA}.undo (statement) VALUES ({quoted})"))
                .context("noting how a change is undone")?;
            self.statements.push(statement);
        }
        Ok(())
    }

    /// Executes the entries, as far as possible, and removes the schema.
    ///
    /// # Errors
    /// Something could not be undone; the error lists all of it, and the entries stay.
    pub fn run(&mut self, conn: &mut Conn) -> Result<()> {
        let mut failed = Vec::new();
        for statement in self.statements.iter().rev() {
            if let Err(error) = conn.query_drop(statement)
                && !is_gone(statement, &error)
            {
                failed.push(format!("{statement}: {error}"));
            }
        }
        if !failed.is_empty() {
            bail!(
                "not put back as it was (repair it and run `tacho bench --restore`):\n{}",
                failed.join("\n")
            );
        }
        self.statements.clear();
        conn.query_drop(format!("DROP DATABASE IF EXISTS {SCHEMA}"))
            .with_context(|| format!("cannot remove the schema {SCHEMA}"))
    }
}

/// A string literal. Sessions of the bench have no NO_BACKSLASH_ESCAPES.
pub fn quote(text: &str) -> String {
    format!("'{}'", text.replace('\\', "\\\\").replace('\'', "''"))
}

#[cfg(test)]
mod tests {
    #[test]
    fn quotes() {
        assert_eq!(super::quote(r"a'b\c"), r"'a''b\\c'");
    }
}
