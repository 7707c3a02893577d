import { For, type JSX, Show } from "solid-js";
import { leave, me } from "../lib/session.ts";
import { setTheme, type Theme, theme } from "../lib/theme.ts";
import { setZone, zone } from "../lib/time.ts";
import { Icon, type IconName } from "./Icon.tsx";
import { Menu } from "./Menu.tsx";
import { Text } from "./Text.tsx";

const THEMES: { theme: Theme; label: string; icon: IconName }[] = [
  { theme: "system", label: "As the system", icon: "screen" },
  { theme: "light", label: "Light", icon: "sun" },
  { theme: "dark", label: "Dark", icon: "moon" },
];

/** Account, colors and time zone. */
export function AccountMenu(props: { isUp?: boolean }) {
  return (
    <Menu
      label="Account and settings"
      side={props.isUp ? "left" : "right"}
      up={props.isUp ?? false}
      buttonClass={props.isUp ? "account" : "button icon"}
      button={
        <>
          <Icon name="user" />
          <Show when={props.isUp}>
            <span class="cut">
              <Text value={me()?.user ?? ""} />
            </span>
          </Show>
        </>
      }
    >
      {(close) => (
        <>
          <div class="menu-title">
            Signed in as <Text value={me()?.user ?? ""} />, {me()?.role}
          </div>
          <div class="menu-line" />
          <div class="menu-title">Colors</div>
          <For each={THEMES}>
            {(one) => (
              <Choice isChosen={theme() === one.theme} choose={() => setTheme(one.theme)}>
                {one.label}
                <span class="spacer" />
                <Icon name={one.icon} />
              </Choice>
            )}
          </For>
          <div class="menu-title">Times</div>
          <Choice isChosen={zone() === "local"} choose={() => setZone("local")}>
            Local time
          </Choice>
          <Choice isChosen={zone() === "utc"} choose={() => setZone("utc")}>
            UTC
          </Choice>
          <div class="menu-line" />
          <Choice
            choose={() => {
              close();
              void leave();
            }}
          >
            Sign out
            <span class="spacer" />
            <Icon name="exit" />
          </Choice>
        </>
      )}
    </Menu>
  );
}

function Choice(props: { isChosen?: boolean; choose: () => void; children: JSX.Element }) {
  return (
    <button type="button" class="item" aria-pressed={props.isChosen} onClick={() => props.choose()}>
      <span class="check">
        <Show when={props.isChosen}>
          <Icon name="check" size={14} />
        </Show>
      </span>
      {props.children}
    </button>
  );
}
