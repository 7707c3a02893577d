import { For, Show } from "solid-js";
import { fetchActivity } from "../api/queries.ts";
import type { Activity } from "../api/types.ts";
import { integer } from "../lib/format.ts";
import { createQuery } from "../lib/resource.ts";
import { ago, dateTime, parseInstant, rough, SECOND } from "../lib/time.ts";
import { Text } from "./Text.tsx";

const EVERY_MS = 10_000;
/** What is worth a place; all variables are in the metrics. */
const SHOWN = [
  ["Threads_running", "Running"],
  ["Threads_connected", "Connected"],
  ["max_connections", "Connections at most"],
  ["Slow_queries", "Slow statements"],
  ["Aborted_connects", "Aborted sign-ins"],
  ["Tacho_records_lost", "Records lost"],
  ["Tacho_blocked_count", "Waits for the recorder"],
  ["Tacho_write_errors", "Errors of writing the log"],
] as const;

/** What the database server is doing, as its shipper says, which has an account there. */
export function ActivityPanel(props: { server: string }) {
  const query = createQuery(
    () => props.server,
    (server, signal) => fetchActivity(server, signal),
    { every: () => EVERY_MS },
  );
  return <Show when={query.data()}>{(activity) => <Panel activity={activity()} />}</Show>;
}

function Panel(props: { activity: Activity }) {
  const at = () => parseInstant(props.activity.ts);
  return (
    <section class="activity">
      <h2>
        In the database{" "}
        <span class="second" title={at() === null ? "" : dateTime(at() ?? 0, 6)}>
          {at() === null ? "" : ago(at() ?? 0, Date.now() * 1000)}
        </span>
      </h2>
      <Show
        when={!props.activity.error}
        fallback={
          <p class="warn problem">
            <Text value={props.activity.error ?? ""} />
          </p>
        }
      >
        <Status activity={props.activity} />
        <Sessions activity={props.activity} />
      </Show>
    </section>
  );
}

function Status(props: { activity: Activity }) {
  const value = (name: string) => props.activity.status[name];
  const number = (text: string) => (Number.isFinite(Number(text)) ? integer(Number(text)) : text);
  return (
    <dl class="facts">
      <For each={SHOWN.filter(([name]) => value(name) !== undefined)}>
        {([name, title]) => (
          <>
            <dt>{title}</dt>
            <dd class="num">{number(value(name) ?? "")}</dd>
          </>
        )}
      </For>
    </dl>
  );
}

function Sessions(props: { activity: Activity }) {
  const busy = () => props.activity.processes.filter((process) => process.digest_text !== null);
  return (
    <Show when={busy().length > 0} fallback={<p class="muted">No statement is running.</p>}>
      <div class="scroll-x">
        <table class="table">
          <thead>
            <tr>
              <th class="right wide-only">Connection</th>
              <th>User</th>
              <th>Database</th>
              <th class="right">For</th>
              <th>Statement</th>
            </tr>
          </thead>
          <tbody>
            <For each={busy()}>
              {(process) => (
                <tr>
                  <td class="right num wide-only">{process.id}</td>
                  <td>
                    <Text value={process.user} />
                  </td>
                  <td>
                    <Text value={process.db ?? "–"} />
                  </td>
                  <td class="right num">{rough(process.time_s * SECOND)}</td>
                  <td class="mono">
                    <Text value={process.digest_text ?? ""} />
                  </td>
                </tr>
              )}
            </For>
          </tbody>
        </table>
      </div>
    </Show>
  );
}
