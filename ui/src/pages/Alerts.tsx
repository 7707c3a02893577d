import { createSignal, For, Show } from "solid-js";
import { acknowledgeAlert, fetchAlerts } from "../api/queries.ts";
import type { Alert, AlertState, Delivery } from "../api/types.ts";
import { Dialog } from "../components/Dialog.tsx";
import { Icon } from "../components/Icon.tsx";
import { Page } from "../components/Page.tsx";
import { Badge, Empty, ErrorBox, type Tone } from "../components/States.tsx";
import { Text } from "../components/Text.tsx";
import { toast } from "../components/Toast.tsx";
import { plural, sentence } from "../lib/format.ts";
import { recordHref } from "../lib/links.ts";
import { createQuery } from "../lib/resource.ts";
import { href, patch, place } from "../lib/router.ts";
import { useServers } from "../lib/servers.ts";
import { ago, dateTime, parseInstant } from "../lib/time.ts";
import { severityTone } from "./overview/AlertsPanel.tsx";

const STATES: [AlertState, string][] = [
  ["open", "Open"],
  ["acknowledged", "Acknowledged"],
  ["closed", "Closed"],
];

const EVERY_MS = 5000;

/** What the hub has noticed, and what people have said about it. */
export default function Alerts() {
  const state = () => STATES.find(([name]) => name === place().params.get("state"))?.[0] ?? "open";
  const query = createQuery(state, fetchAlerts, { every: () => EVERY_MS });
  const watch = useServers();
  const [chosen, setChosen] = createSignal<Alert | null>(null);
  const done = () => {
    setChosen(null);
    query.reload();
    watch.alerts.reload();
  };
  return (
    <Page title="Alerts" isUnscoped>
      <div class="toolbar">
        <div class="segments">
          <For each={STATES}>
            {([name, label]) => (
              <button
                type="button"
                aria-pressed={state() === name}
                onClick={() => patch({ state: name === "open" ? null : name, id: null })}
              >
                {label}
              </button>
            )}
          </For>
        </div>
      </div>
      <Show when={query.error()}>
        {(error) => <ErrorBox error={error()} retry={query.reload} />}
      </Show>
      <Show when={query.data()}>
        {(all) => (
          <div class="panel" classList={{ stale: query.stale() }}>
            <Show
              when={all().length > 0}
              fallback={
                <Empty title={`No ${state()} alerts`}>
                  {state() === "open"
                    ? "Servers that fall silent, gaps and broken seals appear here."
                    : ""}
                </Empty>
              }
            >
              <ul class="alerts">
                <For each={all()}>
                  {(alert) => <Item alert={alert} acknowledge={() => setChosen(alert)} />}
                </For>
              </ul>
            </Show>
          </div>
        )}
      </Show>
      <Show when={chosen()}>
        {(alert) => <Acknowledge alert={alert()} done={done} close={() => setChosen(null)} />}
      </Show>
    </Page>
  );
}

function when(alert: Alert): string {
  const [first, last] = [parseInstant(alert.first_ts) ?? 0, parseInstant(alert.last_ts) ?? 0];
  const times = alert.count > 1 ? `${plural(alert.count, "time")}, last ` : "";
  return `${times}${ago(Math.max(first, last), Date.now() * 1000)}`;
}

function Item(props: { alert: Alert; acknowledge: () => void }) {
  const alert = () => props.alert;
  const tone = (): Tone => severityTone(alert().severity);
  const isNamed = () => place().params.get("id") === String(alert().id);
  return (
    <li class="alert" classList={{ named: isNamed() }}>
      <span class={`alert-mark ${tone() || "muted"}`}>
        <Icon name="warning" />
      </span>
      <div class="alert-body">
        <div class="alert-title">
          <strong>
            <Text value={alert().title} />
          </strong>
          <Badge tone={tone()}>{alert().severity}</Badge>
          <Show when={alert().server}>
            {(server) => (
              <a class="value second" href={href("/servers", { open: server() })}>
                <Text value={server()} />
              </a>
            )}
          </Show>
        </div>
        <p class="second">
          <Text value={sentence(alert().message)} />
        </p>
        <p class="muted small num" title={dateTime(parseInstant(alert().first_ts) ?? 0, 3)}>
          {when(alert())} · {alert().rule}
        </p>
        <Examples alert={alert()} />
        <Deliveries all={alert().deliveries ?? []} />
        <Show when={alert().note}>
          {(note) => (
            <blockquote class="alert-note">
              <Text value={note()} />
              <Show when={alert().acknowledged_by}>
                {(who) => (
                  <p class="muted small">
                    <Text value={who()} />
                  </p>
                )}
              </Show>
            </blockquote>
          )}
        </Show>
      </div>
      <Show when={alert().state === "open"}>
        <button type="button" class="button" onClick={() => props.acknowledge()}>
          Acknowledge
        </button>
      </Show>
    </li>
  );
}

/** Channels that the alert was sent to, and those that have not accepted it. */
function Deliveries(props: { all: Delivery[] }) {
  const newest = () => {
    const channels = new Map<string, Delivery>();
    for (const delivery of props.all) {
      if (!channels.has(delivery.channel)) {
        channels.set(delivery.channel, delivery);
      }
    }
    return [...channels.values()];
  };
  const tries = (it: Delivery) =>
    it.last_error === null ? "waits" : `${plural(it.tries, "try", "tries")}: ${it.last_error}`;
  const text = (it: Delivery) => {
    if (it.state === "sent") {
      return `Sent to ${it.channel}`;
    }
    return `${it.state === "failed" ? "Not sent" : "Not yet sent"} to ${it.channel} (${tries(it)})`;
  };
  return (
    <For each={newest()}>
      {(delivery) => (
        <p class="muted small">
          <Text value={text(delivery)} />
        </p>
      )}
    </For>
  );
}

/** The records that an alert is about, or the text of its examples. */
function Examples(props: { alert: Alert }) {
  const server = () => props.alert.server ?? "";
  const lost = () => href("/search", { q: "event:lost", server: server(), from: "-7d" });
  return (
    <>
      <For each={(props.alert.examples ?? []).slice(0, 3)}>
        {(example) => {
          const text = typeof example === "string" ? example : JSON.stringify(example);
          const seq = /^record (\d+)$/.exec(text)?.[1];
          return (
            <Show
              when={seq !== undefined && server() !== "" && seq}
              fallback={
                <p class="mono small second">
                  <Text value={text} />
                </p>
              }
            >
              {(seq) => (
                <a class="link small" href={recordHref({ server: server(), seq: Number(seq()) })}>
                  {`Record ${seq()}`}
                </a>
              )}
            </Show>
          );
        }}
      </For>
      <Show when={props.alert.rule === "lost"}>
        <a class="link small" href={lost()}>
          Declared losses
        </a>
      </Show>
    </>
  );
}

function Acknowledge(props: { alert: Alert; done: () => void; close: () => void }) {
  const [note, setNote] = createSignal("");
  const [error, setError] = createSignal<Error>();
  const [isBusy, setBusy] = createSignal(false);
  const send = async (event: Event) => {
    event.preventDefault();
    setBusy(true);
    setError(undefined);
    try {
      await acknowledgeAlert(props.alert.id, note().trim());
      toast("Alert acknowledged");
      props.done();
    } catch (problem) {
      setError(problem instanceof Error ? problem : new Error(String(problem)));
    }
    setBusy(false);
  };
  return (
    <Dialog title="Acknowledge the alert" close={props.close}>
      <form class="stack" onSubmit={(event) => void send(event)}>
        <p class="second">
          <Text value={props.alert.title} />
        </p>
        <label>
          <span class="label">What did you find? It is kept with the alert, with your name.</span>
          <textarea
            class="input"
            rows="4"
            value={note()}
            onInput={(event) => setNote(event.currentTarget.value)}
          />
        </label>
        <Show when={error()}>{(problem) => <ErrorBox error={problem()} />}</Show>
        <div class="dialog-actions">
          <button type="button" class="button" onClick={() => props.close()}>
            Cancel
          </button>
          <button type="submit" class="button primary" disabled={isBusy() || note().trim() === ""}>
            Acknowledge
          </button>
        </div>
      </form>
    </Dialog>
  );
}
