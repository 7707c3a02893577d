//! Servers, alerts, sessions.

use serde_json::{Value, json};
use tacho_ship::protocol::Code;

use super::operation::{JSON, Operation};
use super::schema::{flag, list, named, number, object, text, word};
use crate::roles::Role;

pub const STATE: [Role; 3] = [Role::Viewer, Role::Auditor, Role::Admin];
const TEXT: &str = "text/plain";

pub fn operations() -> Vec<Operation> {
    let new = |method, id, summary| Operation::new(method, "state", id, summary);
    let note = object([("note", text("why; the first 2000 characters are kept"))]);
    vec![
        new(("get", "/healthz"), "health", "Whether the hub serves requests")
            .public()
            .answer(200, "it does", TEXT, json!({"const": "ok\n"}))
            .answer(
                503,
                "it cannot write its own log, or has no space for others",
                TEXT,
                text("why"),
            ),
        new(("get", "/metrics"), "metrics", "Figures in Prometheus' format")
            .roles(&STATE)
            .errors(&[Code::Forbidden, Code::Internal])
            .answer(200, "text format 0.0.4", TEXT, text("")),
        new(("get", "/api/v1/openapi.json"), "openapi", "This description").public().answer(
            200,
            "OpenAPI 3.1",
            JSON,
            json!({"type": "object"}),
        ),
        new(("get", "/api/v1/servers"), "servers", "The state of every server")
            .about("Servers that have sent something, or have a token for it.")
            .roles(&STATE)
            .error(Code::Forbidden)
            .answer(200, "sorted by name", JSON, list("", named("Server"))),
        new(
            ("get", "/api/v1/servers/{server}/activity"),
            "activity",
            "What a database server is doing",
        )
        .about(
            "As its shipper said last, which needs an account there. Administrators see sessions \
             without their statements.",
        )
        .roles(&STATE)
        .in_path("server", text("name of the server"))
        .errors(&[Code::Forbidden, Code::NotFound, Code::BadRequest])
        .answer(200, "status and sessions", JSON, named("Activity")),
        retention(("put", "/api/v1/servers/{server}/retention"), "setRetention")
            .about("Older log files are removed within seconds.")
            .body(JSON, object([("days", days())]))
            .errors(&[Code::BadRequest, Code::TooLarge]),
        retention(("delete", "/api/v1/servers/{server}/retention"), "resetRetention")
            .about("Back to the default with which the hub was started."),
        new(("get", "/api/v1/storage"), "storage", "What the logs need of the disk")
            .about("At most 5 s old.")
            .roles(&STATE)
            .errors(&[Code::Forbidden, Code::Internal])
            .answer(200, "the disk, and each log on it", JSON, named("Storage")),
        new(("get", "/api/v1/alerts"), "alerts", "Alerts")
            .about("The newest 1000, also those that are closed.")
            .roles(&STATE)
            .query("state", word("only those", ["open", "acknowledged", "closed"]))
            .errors(&[Code::Forbidden, Code::BadRequest])
            .answer(200, "the newest first", JSON, list("", named("Alert"))),
        new(
            ("post", "/api/v1/alerts/{id}/acknowledge"),
            "acknowledgeAlert",
            "Acknowledge an alert",
        )
        .about("It is not repeated then. What happens again is still counted.")
        .roles(&[Role::Auditor, Role::Admin])
        .in_path("id", number("number of the alert"))
        .body(JSON, note)
        .errors(&[Code::Forbidden, Code::BadRequest, Code::NotFound, Code::TooLarge])
        .answer(200, "the alert", JSON, named("Alert")),
        sign_in(),
        new(("delete", "/api/v1/session"), "signOut", "Sign out")
            .roles(&Role::ALL)
            .empty(204, "the session has ended"),
        new(("get", "/api/v1/me"), "me", "The account or token of the request")
            .roles(&Role::ALL)
            .answer(200, "account or token", JSON, named("Me")),
    ]
}

fn days() -> Value {
    number("days for which the log is kept; 0: for ever")
}

/// A request that changes the retention of a server.
fn retention(path: (&'static str, &'static str), id: &str) -> Operation {
    let answer = object([
        ("server", text("name of the server")),
        ("retention_days", days()),
        ("retention_is_default", flag("it is that with which the hub was started")),
    ]);
    Operation::new(path, "state", id, "How long the log of a server is kept")
        .roles(&[Role::Admin])
        .in_path("server", text("name of the server"))
        .errors(&[Code::Forbidden, Code::NotFound])
        .answer(200, "what holds now", JSON, answer)
}

fn sign_in() -> Operation {
    let token = object([("token", text("a token, or the text of a sign-in link"))]);
    let account = object([("user", text("name of the account")), ("password", text(""))]);
    let session: Value = object([
        ("user", text("name of the account or the token")),
        ("role", text("its roles, with + between them")),
    ]);
    Operation::new(("post", "/api/v1/session"), "state", "signIn", "Sign in")
        .about("The answer has the cookie of a session of 12 hours.")
        .public()
        .body(JSON, json!({"anyOf": [token, account]}))
        .errors(&[Code::BadRequest, Code::Token, Code::TooLarge, Code::TooMany])
        .error(Code::Unavailable)
        .answer(200, "signed in", JSON, session)
}
