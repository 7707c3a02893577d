import { createSignal, For, type JSX, Show } from "solid-js";
import type { Server } from "../api/types.ts";
import { ActivityPanel } from "../components/ActivityPanel.tsx";
import { Icon } from "../components/Icon.tsx";
import { Page } from "../components/Page.tsx";
import { Empty, ErrorBox, SealBadge, ServerBadge } from "../components/States.tsx";
import { StorageTable } from "../components/Storage.tsx";
import { Text } from "../components/Text.tsx";
import { bytes, integer } from "../lib/format.ts";
import { href, place } from "../lib/router.ts";
import { useServers } from "../lib/servers.ts";
import { ago, dateTime, parseInstant, rough, SECOND } from "../lib/time.ts";

const since = (text: string | null | undefined) => {
  const at = text ? parseInstant(text) : null;
  return at === null ? "never" : ago(at, Date.now() * 1000);
};

const exactly = (text: string | null | undefined) => {
  const at = text ? parseInstant(text) : null;
  return at === null ? "" : dateTime(at, 6);
};

/** Each server: whether its records arrive, and up to where they are proven. */
export default function Servers() {
  const { query } = useServers();
  return (
    <Page title="Servers" isUnscoped>
      <Show when={!query.data() && query.error()}>
        {(error) => <ErrorBox error={error()} retry={query.reload} />}
      </Show>
      <Show when={query.data()}>
        {(all) => (
          <Show
            when={all().length > 0}
            fallback={
              <Empty title="No server yet">
                <span>
                  Create a token with <code class="mono">tacho-hub token create --role agent</code>,
                  then run <code class="mono">tacho ship</code> on the database host.
                </span>
              </Empty>
            }
          >
            <div class="panel scroll-x">
              <Table servers={all()} />
            </div>
            <StorageTable />
          </Show>
        )}
      </Show>
    </Page>
  );
}

function Table(props: { servers: Server[] }) {
  return (
    <table class="table servers-table">
      <thead>
        <tr>
          <th>Server</th>
          <th>State</th>
          <th>Proof</th>
          <th class="right wide-only">Verified up to</th>
          <th class="right wide-only">Records</th>
          <th class="right wide-only">Lag</th>
          <th class="right wide-only">Lost</th>
          <th class="right wide-only">Gaps</th>
          <th class="right wide-only">Last record</th>
          <th>
            <span class="sr">Details</span>
          </th>
        </tr>
      </thead>
      <tbody>
        <For each={props.servers}>
          {(server) => <Row server={server} isAlone={props.servers.length === 1} />}
        </For>
      </tbody>
    </table>
  );
}

function Row(props: { server: Server; isAlone: boolean }) {
  const isNamed = () => place().params.get("open") === props.server.server;
  const [isOpen, setOpen] = createSignal(props.isAlone || isNamed());
  const server = () => props.server;
  const loss = (n: number) => <span class={n > 0 ? "bad strong" : "muted"}>{integer(n)}</span>;
  const name = () => server().name || server().server;
  return (
    <>
      <tr class="go" onClick={() => setOpen(!isOpen())}>
        <td class="strong">
          <Text value={name()} />
        </td>
        <td>
          <ServerBadge state={server().state} />
        </td>
        <td>
          <SealBadge state={server().seal} message={server().seal_message} />
        </td>
        <td class="right wide-only">
          {server().verified_to_seq === null ? "–" : integer(server().verified_to_seq ?? 0)}
        </td>
        <td class="right wide-only">{integer(server().records)}</td>
        <td class="right wide-only">{server().lag_s === null ? "–" : lag(server().lag_s ?? 0)}</td>
        <td class="right wide-only">{loss(server().lost)}</td>
        <td class="right wide-only">{loss(server().gaps)}</td>
        <td class="right second wide-only" title={exactly(server().last_record_ts)}>
          {since(server().last_record_ts)}
        </td>
        <td class="right">
          <button
            type="button"
            class="button plain icon"
            classList={{ turned: isOpen() }}
            aria-expanded={isOpen()}
            aria-label={`Details of ${name()}`}
            onClick={(event) => {
              event.stopPropagation();
              setOpen(!isOpen());
            }}
          >
            <Icon name="down" />
          </button>
        </td>
      </tr>
      <Show when={isOpen()}>
        <tr class="details">
          <td colspan="10">
            <Details server={server()} />
          </td>
        </tr>
      </Show>
    </>
  );
}

const lag = (seconds: number) =>
  seconds < 1 ? `${Math.round(seconds * 1000)} ms` : rough(seconds * SECOND);

const optional = (n: number | null) => (n === null ? "–" : integer(n));

function Details(props: { server: Server }) {
  const server = () => props.server;
  const waiting = () =>
    server().landed_seq !== null && server().indexed_seq !== null
      ? (server().landed_seq ?? 0) - (server().indexed_seq ?? 0)
      : null;
  return (
    <div class="server-details">
      <Findings server={server()} />
      <div class="server-columns">
        <section>
          <h2>Proof</h2>
          <dl class="facts">
            <Fact name="Verified up to">{optional(server().verified_to_seq)}</Fact>
            <Fact name="Lost, gaps">
              {integer(server().lost)}, {integer(server().gaps)}
            </Fact>
            <Fact name="Last checkpoint" title={exactly(server().checkpoint_ts)}>
              {since(server().checkpoint_ts)}
            </Fact>
            <Fact name="Waiting for a seal">{bytes(server().unsealed_bytes)}</Fact>
            <Fact name="Generation">{server().generation}</Fact>
          </dl>
        </section>
        <section>
          <h2>At the hub</h2>
          <dl class="facts">
            <Fact name="Records">{integer(server().records)}</Fact>
            <Fact name="Arrived up to">{optional(server().landed_seq)}</Fact>
            <Fact name="Not searchable yet">
              {waiting() === null ? "–" : integer(waiting() ?? 0)}
            </Fact>
            <Fact name="Last record" title={exactly(server().last_record_ts)}>
              {since(server().last_record_ts)}
            </Fact>
            <Fact name="Size of the log">{bytes(server().bytes)}</Fact>
          </dl>
        </section>
        <ShipperFacts server={server()} />
      </div>
      <Show when={server().has_activity}>
        <ActivityPanel server={server().server} />
      </Show>
      <For each={server().shipper?.problems ?? []}>
        {(problem) => (
          <p class="warn problem">
            <Icon name="warning" />
            <span>
              <Text
                value={problem.file ? `${problem.file}: ${problem.message}` : problem.message}
              />
            </span>
          </p>
        )}
      </For>
      <div class="actions">
        <a class="button" href={href("/search", { server: server().server })}>
          <Icon name="search" />
          Search its records
        </a>
        <a class="button" href={href("/", { server: server().server })}>
          <Icon name="overview" />
          Overview
        </a>
      </div>
    </div>
  );
}

/** What the verification says, in words. */
function Findings(props: { server: Server }) {
  const server = () => props.server;
  const isBad = () => server().seal === "broken" || server().seal === "gap";
  const said = () => {
    const findings = server().findings ?? [];
    const message = server().seal_message;
    return message && !findings.includes(message) ? [message, ...findings] : findings;
  };
  return (
    <ul class={isBad() ? "bad" : "second"}>
      <For each={said()}>
        {(text) => (
          <li class="problem">
            <Text value={text} />
          </li>
        )}
      </For>
    </ul>
  );
}

/** What the program that sends the log says of itself. */
function ShipperFacts(props: { server: Server }) {
  const server = () => props.server;
  return (
    <section>
      <h2>Shipper</h2>
      <Show when={server().shipper} fallback={<p class="muted">Has not reported yet.</p>}>
        {(shipper) => (
          <dl class="facts">
            <Fact name="Host">
              <Text value={shipper().host ?? "–"} />
            </Fact>
            <Fact name="Version">
              <Text value={shipper().version ?? "–"} />
            </Fact>
            <Fact name="Last report" title={exactly(shipper().last_seen)}>
              {since(shipper().last_seen)}
            </Fact>
            <Fact name="Recorder">
              <Recorder isRunning={shipper().recorder} />
            </Fact>
            <Show when={Math.abs(shipper().clock_skew_s ?? 0) >= 1}>
              <Fact name="Clock differs by">
                <span class="warn">{rough(Math.abs(shipper().clock_skew_s ?? 0) * SECOND)}</span>
              </Fact>
            </Show>
            <Fact name="Still to send">{bytes(shipper().behind_bytes ?? 0)}</Fact>
            <Fact name="Free disk">
              {typeof shipper().free_bytes === "number" ? bytes(shipper().free_bytes ?? 0) : "–"}
            </Fact>
          </dl>
        )}
      </Show>
    </section>
  );
}

function Recorder(props: { isRunning: boolean | null | undefined }) {
  return (
    <Show when={props.isRunning !== false} fallback={<span class="bad">not running</span>}>
      {props.isRunning ? "running" : "–"}
    </Show>
  );
}

function Fact(props: { name: string; title?: string; children: JSX.Element }) {
  return (
    <>
      <dt>{props.name}</dt>
      <dd class="num" title={props.title}>
        {props.children}
      </dd>
    </>
  );
}
