import { type JSX, Show } from "solid-js";
import { ApiError, UnreachableError } from "../api/client.ts";
import type { SealState, ServerState } from "../api/types.ts";
import { sentence } from "../lib/format.ts";
import { Icon, type IconName } from "./Icon.tsx";

export type Tone = "ok" | "warn" | "bad" | "";

export const SERVER_TONES: Record<ServerState, Tone> = {
  ok: "ok",
  behind: "warn",
  silent: "bad",
  stopped: "bad",
  broken: "bad",
  new: "",
};

export const SERVER_WORDS: Record<ServerState, string> = {
  ok: "Receiving",
  behind: "Behind",
  silent: "Silent",
  stopped: "Recorder stopped",
  broken: "Broken",
  new: "No records yet",
};

const SEALS: Record<SealState, { tone: Tone; word: string; icon: IconName }> = {
  sealed: { tone: "ok", word: "Verified", icon: "sealed" },
  unsealed: { tone: "warn", word: "Not sealed", icon: "shield" },
  gap: { tone: "bad", word: "Gap", icon: "broken" },
  broken: { tone: "bad", word: "Broken seal", icon: "broken" },
};

export function Dot(props: { tone: Tone }) {
  return <span class={`dot ${props.tone}`} aria-hidden="true" />;
}

export function Badge(props: { tone?: Tone; title?: string; children: JSX.Element }) {
  return (
    <span class={`badge ${props.tone ?? ""}`} title={props.title}>
      {props.children}
    </span>
  );
}

export function ServerBadge(props: { state: ServerState }) {
  return (
    <Badge tone={SERVER_TONES[props.state] ?? ""}>
      <Dot tone={SERVER_TONES[props.state] ?? ""} />
      {SERVER_WORDS[props.state] ?? props.state}
    </Badge>
  );
}

export function SealBadge(props: { state: SealState | null; message?: string | null | undefined }) {
  const none = { tone: "", word: "Not verified yet", icon: "shield" } as const;
  const seal = () => (props.state === null ? none : (SEALS[props.state] ?? SEALS.unsealed));
  return (
    <Badge tone={seal().tone} title={props.message ?? ""}>
      <Icon name={seal().icon} size={14} />
      {seal().word}
    </Badge>
  );
}

/** What to say of an error, in words for people. */
export function explain(error: Error): string {
  if (error instanceof UnreachableError) {
    return "The hub does not answer. Trying again.";
  }
  if (error instanceof ApiError && error.status === 403) {
    return "Your role does not permit reading this.";
  }
  return sentence(error.message);
}

export function ErrorBox(props: { error: Error; retry?: () => void }) {
  return (
    <div class="error-box" role="alert">
      <Icon name="warning" />
      <span>{explain(props.error)}</span>
      <Show when={props.retry && !(props.error instanceof UnreachableError)}>
        <button type="button" class="button" onClick={() => props.retry?.()}>
          Try again
        </button>
      </Show>
    </div>
  );
}

export function Empty(props: { title: string; children?: JSX.Element }) {
  return (
    <div class="empty">
      <strong>{props.title}</strong>
      {props.children}
    </div>
  );
}
