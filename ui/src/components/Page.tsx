import { createEffect, type JSX, Show } from "solid-js";
import { reachable } from "../api/client.ts";
import { isCurrent, isPaused, setPaused } from "../lib/scope.ts";
import { useServers } from "../lib/servers.ts";
import { AccountMenu } from "./AccountMenu.tsx";
import { Icon } from "./Icon.tsx";
import { RangePicker } from "./RangePicker.tsx";
import { ServerPicker } from "./ServerPicker.tsx";

interface Props {
  /** The name of the page, also of the browser's tab. */
  title: string;
  /** What is shown in place of the title: where the page lies. */
  crumbs?: JSX.Element;
  /** Pages without a time range: of one thing. */
  isUnscoped?: boolean;
  actions?: JSX.Element;
  class?: string;
  children: JSX.Element;
}

/** A page: the bar with its title, time range and servers, and the content. */
export function Page(props: Props) {
  createEffect(() => {
    document.title = `${props.title} · Tachograph`;
  });
  const { query } = useServers();
  return (
    <main class={`main ${props.class ?? ""}`} id="main" tabindex="-1">
      <header class="bar">
        <h1 class="cut">
          <Show when={props.crumbs} fallback={props.title}>
            {props.crumbs}
          </Show>
        </h1>
        {props.actions}
        <Show when={!props.isUnscoped}>
          <div class="bar-scope">
            <ServerPicker all={query.data()} />
            <RangePicker />
            <Show when={isCurrent()}>
              <PauseButton />
            </Show>
          </div>
        </Show>
        <div class="narrow-only">
          <AccountMenu />
        </div>
      </header>
      <Show when={!reachable()}>
        <div class="notice" role="status">
          <Icon name="warning" />
          The hub does not answer. This page shows what it last said, and tries again.
        </div>
      </Show>
      {props.children}
    </main>
  );
}

function PauseButton() {
  const label = () => (isPaused() ? "Resume refreshing" : "Pause refreshing");
  return (
    <button
      type="button"
      class="button icon"
      aria-pressed={isPaused()}
      aria-label={label()}
      title={`${label()} (p)`}
      onClick={() => setPaused(!isPaused())}
    >
      <Icon name={isPaused() ? "play" : "pause"} />
    </button>
  );
}
