//! `GET /api/v1/tail`: new records as they come, as server-sent events.
//!
//! What is new is known from the watermarks of two states of the index: the lines of each log file
//! between them. So no record is missing and none comes twice, however slow the client is.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::extract::State;
use axum::response::sse::{Event, KeepAlive, KeepAliveStream, Sse};
use futures_core::Stream;
use serde_json::json;
use tacho_query::{Request, literal};
use tacho_store::{Advance, Snapshot};
use tokio::sync::mpsc;

use super::ApiError;
use super::filter::{Filter, text_time};
use super::records::to_json;
use crate::clock::now_us;
use crate::state::AppState;

/// Records of one step at most; `lag` has how many were left out.
const RECORDS_MAX: u64 = 1_000;
/// Events that wait for a slow client.
const WAITING: usize = 64;
/// A client sees at least so often that the connection lives.
const QUIET: Duration = Duration::from_secs(5);

/// The events of a client.
pub struct Events(mpsc::Receiver<Event>);

impl Stream for Events {
    type Item = Result<Event, Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context) -> Poll<Option<Self::Item>> {
        self.0.poll_recv(context).map(|event| event.map(Ok))
    }
}

/// The answer: events `record` with one record each, `lag` after each step, and `failure`, because
/// an `EventSource` has an event `error` of its own.
///
/// # Errors
/// A parameter is wrong.
pub async fn tail(
    State(state): State<AppState>,
    filter: Filter,
) -> Result<Sse<KeepAliveStream<Events>>, ApiError> {
    let (sender, receiver) = mpsc::channel(WAITING);
    tokio::spawn(follow(state, filter, sender));
    Ok(Sse::new(Events(receiver)).keep_alive(KeepAlive::new().interval(QUIET)))
}

/// Ends when the client is gone, or the hub stops.
async fn follow(state: AppState, mut filter: Filter, sender: mpsc::Sender<Event>) {
    // What is new is what counts, not when it began.
    filter.from_us = None;
    filter.to_us = None;
    let mut changed = state.index.changed();
    let mut stopping = state.stopping.clone();
    loop {
        let waited = tokio::select! {
            waited = changed.changed() => waited.is_ok(),
            () = tokio::time::sleep(QUIET) => true,
            () = sender.closed() => false,
            _ = stopping.wait_for(|stopping| *stopping) => false,
        };
        if !waited || step(&state, &mut filter, &sender).await.is_err() {
            return;
        }
    }
}

/// The client is gone.
struct Gone;

async fn step(
    state: &AppState,
    filter: &mut Filter,
    sender: &mpsc::Sender<Event>,
) -> Result<(), Gone> {
    let now = Arc::new(state.index.store().snapshot());
    let (files, advances) = now.since(&filter.snapshot);
    let mut missed = 0;
    if !advances.is_empty() {
        match records(state, filter, &now, &files, &advances).await {
            Ok((records, count)) => {
                missed = count;
                for record in records {
                    send(sender, Event::default().event("record").data(record)).await?;
                }
                filter.snapshot = now;
            }
            // The same lines are asked for again with the next step.
            Err(error) => {
                let message = json!({"code": error.code()}).to_string();
                send(sender, Event::default().event("failure").data(message)).await?;
            }
        }
    }
    let lag = json!({
        "ts": text_time(now_us()),
        "behind_bytes": state.index.report().behind_bytes,
        "missed": missed,
    });
    send(sender, Event::default().event("lag").data(lag.to_string())).await
}

async fn send(sender: &mpsc::Sender<Event>, event: Event) -> Result<(), Gone> {
    sender.send(event).await.map_err(|_| Gone)
}

fn request(filter: &Filter, files: &[&std::path::Path], advances: &[Advance]) -> Request {
    let new: Vec<String> = advances
        .iter()
        .map(|Advance { file, from, to }| {
            format!(
                "(\"server\" = {} AND generation = {} AND file = {} AND \"offset\" >= {from} \
                 AND \"offset\" < {to})",
                literal(&file.origin),
                file.generation,
                literal(&file.file)
            )
        })
        .collect();
    let sql = format!(
        "SELECT *, count(*) OVER () FROM records WHERE {} AND ({}) \
         ORDER BY ts DESC, \"server\" DESC, seq DESC LIMIT {RECORDS_MAX}",
        filter.condition(),
        new.join(" OR ")
    );
    Request { files: files.iter().map(Into::into).collect(), ..filter.request(sql) }
}

/// The newest records in order, and how many others there are.
async fn records(
    state: &AppState,
    filter: &mut Filter,
    snapshot: &Arc<Snapshot>,
    files: &[&std::path::Path],
    advances: &[Advance],
) -> Result<(Vec<String>, u64), ApiError> {
    // New records may have new digests.
    filter.look_up(state.index.store()).await?;
    let request = request(filter, files, advances);
    let mut answer = state.index.fetch(Arc::clone(snapshot), request).await?;
    let mut total = 0;
    for row in &mut answer.rows {
        total = row.pop().and_then(|count| count.as_u64()).unwrap_or(0);
    }
    let missed = total.saturating_sub(answer.rows.len() as u64);
    answer.rows.reverse();
    Ok((to_json(&state.index, filter, answer.rows)?, missed))
}
