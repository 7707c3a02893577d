import { createEffect, type JSX, Show } from "solid-js";
import { reachable } from "../api/client.ts";
import { isCurrent, isPaused, setPaused } from "../lib/scope.ts";
import { useServers } from "../lib/servers.ts";
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
  hasServers?: boolean;
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
        <Show when={!props.isUnscoped || props.hasServers}>
          <ServerPicker all={query.data()} />
        </Show>
        <Show when={!props.isUnscoped}>
          <RangePicker />
          <Show when={isCurrent()}>
            <button
              type="button"
              class="button icon"
              aria-pressed={isPaused()}
              aria-label={isPaused() ? "Resume refreshing" : "Pause refreshing"}
              title={isPaused() ? "Resume refreshing (p)" : "Pause refreshing (p)"}
              onClick={() => setPaused(!isPaused())}
            >
              <Icon name={isPaused() ? "play" : "pause"} />
            </button>
          </Show>
        </Show>
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
