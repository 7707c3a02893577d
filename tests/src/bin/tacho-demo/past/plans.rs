//! The servers of the demonstration.

use super::apps::{
    BILLING, BUILDS, CHECKOUT, CRM, JOBS, MONITOR, REPORTS, SEARCH, STOREFRONT, SUPPORT,
};
use super::server::Happening::{
    Crash, Guessing, Lost, Stopped, StoppedForGood, SwitchedOff, Visit,
};
use super::server::Plan;
use super::visit::{BACKUP, BACKUP_CRM, DELETED_TOO_MUCH, DEPLOYMENT, INTRUDER, NEW_ACCOUNT};

/// All of them. Times are minutes before the present.
pub static PLANS: [Plan; 5] = [
    Plan {
        name: "shop-db1",
        version: "MariaDB 10.11.19-MariaDB-log",
        apps: &[&STOREFRONT, &CHECKOUT, &MONITOR],
        events: &[
            (1_130, Visit(&BACKUP)),
            (415, Visit(&NEW_ACCOUNT)),
            (260, Visit(&DEPLOYMENT)),
            (95, Visit(&DELETED_TOO_MUCH)),
        ],
    },
    Plan {
        name: "shop-db2",
        version: "MariaDB 10.11.19-MariaDB-log",
        apps: &[&SEARCH, &REPORTS, &MONITOR],
        events: &[(760, Stopped(35))],
    },
    Plan {
        name: "crm-db1",
        version: "MySQL 8.0.46",
        apps: &[&CRM, &SUPPORT, &MONITOR],
        events: &[(1_100, Visit(&BACKUP_CRM)), (338, Guessing), (333, Visit(&INTRUDER))],
    },
    Plan {
        name: "billing-db1",
        version: "MySQL 9.7.4",
        apps: &[&BILLING, &JOBS, &MONITOR],
        events: &[(620, Lost(1_284)), (190, SwitchedOff(25))],
    },
    Plan {
        name: "staging-db1",
        version: "MariaDB 11.8.3-MariaDB",
        apps: &[&BUILDS],
        events: &[(540, Crash), (42, StoppedForGood)],
    },
];
