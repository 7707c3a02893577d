import { For, Show } from "solid-js";
import { Text } from "./Text.tsx";

interface Crumb {
  text: string;
  /** Missing: the page itself. */
  href?: string;
  isCode?: boolean;
}

/** Where a page lies. */
export function Crumbs(props: { path: Crumb[] }) {
  return (
    <span class="crumbs">
      <For each={props.path}>
        {(crumb, index) => (
          <>
            <Show when={index() > 0}>
              <span class="at">/</span>
            </Show>
            <Show
              when={crumb.href}
              fallback={
                <span class="num cut" classList={{ mono: crumb.isCode ?? false }}>
                  <Text value={crumb.text} />
                </span>
              }
            >
              <a class="cut" href={crumb.href}>
                <Text value={crumb.text} />
              </a>
            </Show>
          </>
        )}
      </For>
    </span>
  );
}
