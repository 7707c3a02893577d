import { createSignal, For, Show } from "solid-js";
import type { Server } from "../api/types.ts";
import { servers, setServers } from "../lib/scope.ts";
import { Icon } from "./Icon.tsx";
import { Menu } from "./Menu.tsx";
import { Dot, SERVER_TONES } from "./States.tsx";
import { Text } from "./Text.tsx";

function label(): string {
  const chosen = servers();
  if (chosen.length === 0) {
    return "All servers";
  }
  return chosen.length === 1 ? (chosen[0] ?? "") : `${chosen.length} servers`;
}

/** Chooses the servers that the page is about. */
export function ServerPicker(props: { all: Server[] | undefined }) {
  return (
    <Menu
      label="Servers"
      button={
        <>
          <Icon name="servers" />
          <span class="cut picker-label">
            <Text value={label()} />
          </span>
          <Icon name="down" size={14} />
        </>
      }
    >
      {(close) => <Choices all={props.all ?? []} close={close} />}
    </Menu>
  );
}

function Choices(props: { all: Server[]; close: () => void }) {
  const [text, setText] = createSignal("");
  const found = () =>
    props.all.filter((one) => one.server.toLowerCase().includes(text().toLowerCase()));
  const toggle = (name: string) => {
    const chosen = servers();
    setServers(
      chosen.includes(name) ? chosen.filter((one) => one !== name) : [...chosen, name].sort(),
    );
  };
  return (
    <>
      <Show when={props.all.length > 8}>
        <input
          class="input"
          placeholder="Find a server"
          aria-label="Find a server"
          onInput={(event) => setText(event.currentTarget.value)}
        />
      </Show>
      <button
        type="button"
        class="item"
        classList={{ at: servers().length === 0 }}
        onClick={() => {
          setServers([]);
          props.close();
        }}
      >
        <span class="check">
          <Show when={servers().length === 0}>
            <Icon name="check" size={14} />
          </Show>
        </span>
        All servers
      </button>
      <div class="menu-line" />
      <For each={found()} fallback={<div class="menu-title">No server has this name</div>}>
        {(one) => (
          <button
            type="button"
            class="item"
            aria-pressed={servers().includes(one.server)}
            onClick={() => toggle(one.server)}
          >
            <span class="check">
              <Show when={servers().includes(one.server)}>
                <Icon name="check" size={14} />
              </Show>
            </span>
            <span class="cut">
              <Text value={one.name || one.server} />
            </span>
            <span class="spacer" />
            <Dot tone={SERVER_TONES[one.state] ?? ""} />
          </button>
        )}
      </For>
    </>
  );
}
