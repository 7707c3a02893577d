//! Accounts, links and sessions.

use super::session::{Owner, begin, end, find_session};
use super::*;
use crate::audit::Entry;
use crate::tokens::TokenGrant;

fn database() -> (tempfile::TempDir, Database) {
    let directory = tempfile::tempdir().unwrap();
    let database = Database::open(&directory.path().join("hub.sqlite")).unwrap();
    (directory, database)
}

fn account(name: &str, roles: &str) -> Account {
    Account { name: name.to_owned(), roles: roles.parse().unwrap(), scope: Scope::All }
}

const PASSWORD: &str = "correct horse battery";

#[test]
fn an_account_signs_in_with_its_password() {
    let (_directory, database) = database();
    let ann = account("ann@example.org", "auditor");
    create(&database, &ann, PASSWORD, &Maker::default(), 1).unwrap();
    assert!(check(&database, &ann.name, PASSWORD).unwrap());
    assert!(!check(&database, &ann.name, "something else").unwrap());
    assert!(!check(&database, "bob", PASSWORD).unwrap());
    assert_eq!(find(&database, &ann.name).unwrap(), Some(ann.clone()));
    let error =
        |account: &Account| create(&database, account, PASSWORD, &Maker::default(), 1).unwrap_err();
    assert!(matches!(error(&ann), AccountError::Exists));
    assert!(matches!(error(&account("a b", "viewer")), AccountError::Name));
    assert!(matches!(error(&account("x", "agent")), AccountError::Agent));
}

#[test]
fn the_first_link_works_once_and_not_for_ever() {
    let (_directory, database) = database();
    let first = first_link(&database, 0).unwrap().unwrap();
    let second = first_link(&database, 0).unwrap().unwrap();
    assert!(!use_link(&database, &first, 1).unwrap(), "another one was made since");
    assert!(!use_link(&database, &second, LINK_US).unwrap(), "it has expired");
    assert!(use_link(&database, &second, LINK_US - 1).unwrap());
    assert!(!use_link(&database, &second, 1).unwrap());
    create(&database, &account("ann", "admin"), PASSWORD, &Maker::default(), 1).unwrap();
    assert_eq!(first_link(&database, 1).unwrap(), None);
}

#[test]
fn a_session_ends_with_what_it_belongs_to() {
    let (_directory, database) = database();
    create(&database, &account("ann", "viewer"), PASSWORD, &Maker::default(), 1).unwrap();
    let cookie = begin(&database, &Owner::Account("ann".to_owned()), 0).unwrap();
    let found = find_session(&database, &cookie, 1).unwrap().unwrap();
    assert_eq!(found.account, account("ann", "viewer"));
    assert_eq!(find_session(&database, &cookie, session::SESSION_US).unwrap(), None);
    assert_eq!(find_session(&database, "x", 1).unwrap(), None);
    let disable = "UPDATE account SET disabled_us = 1";
    let disable = |transaction: &rusqlite::Transaction<'_>| {
        Ok::<_, DatabaseError>(transaction.execute(disable, [])?)
    };
    database.write(disable).unwrap();
    assert_eq!(find_session(&database, &cookie, 1).unwrap(), None);

    let roles = "auditor".parse().unwrap();
    let grant = TokenGrant { name: "t".to_owned(), roles, scope: Scope::All, expires_us: None };
    let token = tokens::create(&database, &grant, &Maker::default(), 0).unwrap();
    let id = tokens::find(&database, &token, 0).unwrap().unwrap().id;
    let cookie = begin(&database, &Owner::Token(id), 0).unwrap();
    assert_eq!(find_session(&database, &cookie, 1).unwrap().unwrap().account.name, "t");
    tokens::revoke(&database, "t", 1).unwrap();
    assert_eq!(find_session(&database, &cookie, 1).unwrap(), None);

    let cookie = begin(&database, &Owner::Link, 0).unwrap();
    let found = find_session(&database, &cookie, 1).unwrap().unwrap();
    assert_eq!(found.account.roles.to_string(), "admin+auditor");
    end(&database, &cookie, &Entry::default()).unwrap();
    assert_eq!(find_session(&database, &cookie, 1).unwrap(), None);
}
