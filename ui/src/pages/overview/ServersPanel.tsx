import { For, Show } from "solid-js";
import type { Server } from "../../api/types.ts";
import { Icon } from "../../components/Icon.tsx";
import { Dot, Empty, SERVER_TONES, SERVER_WORDS } from "../../components/States.tsx";
import { Text } from "../../components/Text.tsx";
import { integer } from "../../lib/format.ts";
import { href } from "../../lib/router.ts";
import { useServers } from "../../lib/servers.ts";

const SHOWN = 8;

/** Trouble first: a server that needs attention must not be below the fold. */
function order(servers: Server[]): Server[] {
  const rank = { bad: 0, warn: 1, "": 2, ok: 3 };
  const trouble = (one: Server) =>
    Math.min(
      rank[SERVER_TONES[one.state] ?? ""],
      one.seal === "broken" || one.seal === "gap" || one.lost > 0 ? 0 : 3,
    );
  return [...servers].sort((a, b) => trouble(a) - trouble(b) || a.server.localeCompare(b.server));
}

/** State and proof of each server. */
export function ServersPanel() {
  const { query } = useServers();
  const all = () => order(query.data() ?? []);
  return (
    <section class="panel" aria-label="Servers">
      <div class="panel-head">
        <h2>Servers</h2>
        <a class="end link small" href={href("/servers")}>
          {all().length > SHOWN ? `All ${all().length}` : "Details"}
        </a>
      </div>
      <ul class="lines">
        <For
          each={all().slice(0, SHOWN)}
          fallback={
            <Show when={query.data()}>
              <Empty title="No server yet">
                Run tacho ship on a database host to send its log here.
              </Empty>
            </Show>
          }
        >
          {(server) => <Line server={server} />}
        </For>
      </ul>
    </section>
  );
}

function Line(props: { server: Server }) {
  const seal = () => {
    const { seal, lost, gaps, verified_to_seq: verified } = props.server;
    if (seal === "broken") {
      return { tone: "bad", icon: "broken", text: "Broken seal" } as const;
    }
    if (seal === "gap" || gaps > 0) {
      return { tone: "bad", icon: "broken", text: "Records missing" } as const;
    }
    if (lost > 0) {
      return { tone: "warn", icon: "shield", text: `${integer(lost)} lost` } as const;
    }
    if (seal === "unsealed" || verified === null) {
      return { tone: "muted", icon: "shield", text: "Not sealed" } as const;
    }
    return { tone: "ok", icon: "sealed", text: integer(verified) } as const;
  };
  return (
    <li>
      <a
        class="line"
        href={href("/servers")}
        title={`${SERVER_WORDS[props.server.state]}; verified up to the number on the right`}
      >
        <Dot tone={SERVER_TONES[props.server.state] ?? ""} />
        <span class="cut">
          <Text value={props.server.name || props.server.server} />
        </span>
        <span class="sr">{SERVER_WORDS[props.server.state]}, verified up to</span>
        <Show when={props.server.state !== "ok"}>
          <span class="muted small">{SERVER_WORDS[props.server.state]}</span>
        </Show>
        <span class="spacer" />
        <span class={`proof num ${seal().tone}`}>
          {seal().text}
          <Icon name={seal().icon} />
        </span>
      </a>
    </li>
  );
}
