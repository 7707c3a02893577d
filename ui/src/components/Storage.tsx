import { For, type JSX, Show } from "solid-js";
import { fetchStorage } from "../api/queries.ts";
import type { Storage as Measured, ServerStorage } from "../api/types.ts";
import { bytes } from "../lib/format.ts";
import { createQuery } from "../lib/resource.ts";
import { dateTime, parseInstant } from "../lib/time.ts";
import { Icon } from "./Icon.tsx";
import { ErrorBox } from "./States.tsx";
import { Text } from "./Text.tsx";

const EVERY_MS = 60_000;

const day = (text: string | null) => {
  const at = text ? parseInstant(text) : null;
  return at === null ? "–" : dateTime(at, 0).slice(0, 10);
};

const days = (n: number) => (n === 0 ? "for ever" : n === 1 ? "1 day" : `${n} days`);

const needed = (n: number | null) => (n === null ? "no limit" : bytes(n));

const WAITS: Record<string, string> = {
  index: "the oldest file is due, and waits for the index",
  verification: "the oldest file is due, and waits for its verification",
  clock: "nothing is removed before a server confirms the hub's clock",
  alert: "nothing is removed before the open alert is acknowledged",
};

/** What each log needs of the disk, and when the disk will be full. */
export function StorageTable() {
  const query = createQuery(
    () => "storage",
    (_, signal) => fetchStorage(signal),
    { every: () => EVERY_MS },
  );
  return (
    <section>
      <h2>Storage</h2>
      <Show when={!query.data() && query.error()}>
        {(error) => <ErrorBox error={error()} retry={query.reload} />}
      </Show>
      <Show when={query.data()}>
        {(storage) => (
          <>
            <Disk storage={storage()} />
            <div class="panel scroll-x">
              <Table servers={storage().servers} />
            </div>
          </>
        )}
      </Show>
    </section>
  );
}

function Disk(props: { storage: Measured }): JSX.Element {
  const full = () => {
    const { full_in_days, full_ts } = props.storage;
    return full_in_days === null
      ? "at the rate of the last days it does not fill up"
      : `at the rate of the last days it is full in ${days(Math.max(full_in_days, 1))}, on ${day(full_ts)}`;
  };
  return (
    <Show
      when={props.storage.accepts_logs}
      fallback={
        <p class="bad problem">
          <Icon name="warning" />
          <span>
            The hub accepts no logs: {bytes(props.storage.free_bytes)} of the disk are free, and{" "}
            {bytes(props.storage.reserve_bytes)} are reserved. Shippers wait.
          </span>
        </p>
      }
    >
      <p class="second">
        {bytes(props.storage.free_bytes)} of the disk are free, {bytes(props.storage.reserve_bytes)}{" "}
        of them reserved; {full()}. With all retentions reached the logs need{" "}
        {needed(props.storage.needed_bytes)}.
      </p>
    </Show>
  );
}

function Table(props: { servers: ServerStorage[] }) {
  return (
    <table class="table">
      <thead>
        <tr>
          <th>Server</th>
          <th class="right">Log</th>
          <th class="right">Uncompressed</th>
          <th class="right">Index</th>
          <th class="right">A day adds</th>
          <th class="right">Oldest record</th>
          <th class="right">Kept</th>
          <th class="right">Needs then</th>
        </tr>
      </thead>
      <tbody>
        <For each={props.servers}>
          {(server) => (
            <tr>
              <td class="strong">
                <Text value={server.server} />
              </td>
              <td class="right">{bytes(server.replica_bytes)}</td>
              <td class="right">{bytes(server.plain_bytes)}</td>
              <td class="right">{bytes(server.index_bytes)}</td>
              <td class="right">{bytes(server.bytes_per_day)}</td>
              <td class="right">{day(server.oldest_record_ts)}</td>
              <td class="right" title={WAITS[server.waits_for ?? ""] ?? ""}>
                {days(server.retention_days)}
                <Show when={server.waits_for}>
                  {" "}
                  <Icon name="warning" />
                </Show>
              </td>
              <td class="right">{needed(server.needed_bytes)}</td>
            </tr>
          )}
        </For>
      </tbody>
    </table>
  );
}
