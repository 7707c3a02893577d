import { For, Show } from "solid-js";
import { Icon } from "../../components/Icon.tsx";
import { ErrorBox } from "../../components/States.tsx";
import { Text } from "../../components/Text.tsx";
import { href } from "../../lib/router.ts";
import { useServers } from "../../lib/servers.ts";
import { ago, parseInstant } from "../../lib/time.ts";

const SHOWN = 5;

export function severityTone(severity: string): "bad" | "warn" | "" {
  if (severity === "critical" || severity === "high") {
    return "bad";
  }
  return severity === "medium" ? "warn" : "";
}

/** The alerts that wait for an acknowledgement. */
export function AlertsPanel() {
  const { alerts } = useServers();
  const all = () => alerts.data() ?? [];
  return (
    <section class="panel" aria-label="Open alerts">
      <div class="panel-head">
        <h2>Open alerts</h2>
        <a class="end link small" href={href("/alerts")}>
          {all().length > SHOWN ? `All ${all().length}` : "All"}
        </a>
      </div>
      <Show when={!alerts.data() && alerts.error()}>
        {(error) => (
          <div class="panel-body">
            <ErrorBox error={error()} />
          </div>
        )}
      </Show>
      <ul class="lines">
        <For
          each={all().slice(0, SHOWN)}
          fallback={
            <Show when={alerts.data()}>
              <li class="line calm">
                <Icon name="check" />
                No open alerts
              </li>
            </Show>
          }
        >
          {(alert) => (
            <li>
              <a class="line" href={href("/alerts", { id: String(alert.id) })}>
                <span class={severityTone(alert.severity) || "muted"}>
                  <Icon name="warning" />
                </span>
                <span class="cut">
                  <Text value={alert.title} />
                </span>
                <span class="spacer" />
                <span class="muted small num">
                  {ago(parseInstant(alert.last_ts) ?? 0, Date.now() * 1000)}
                </span>
              </a>
            </li>
          )}
        </For>
      </ul>
    </section>
  );
}
