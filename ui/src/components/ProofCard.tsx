import { For, Show } from "solid-js";
import type { Proof, RecordAnswer } from "../api/types.ts";
import { sentence } from "../lib/format.ts";
import { dateTime, parseInstant } from "../lib/time.ts";
import { Icon, type IconName } from "./Icon.tsx";
import { Raw } from "./Raw.tsx";
import { Text } from "./Text.tsx";

interface Verdict {
  tone: "ok" | "warn" | "bad";
  icon: IconName;
  title: string;
  text: string;
}

const VERDICTS: Record<Proof["state"], Verdict> = {
  sealed: {
    tone: "ok",
    icon: "sealed",
    title: "Sealed and verified",
    text: "The hub has verified the hash chain and the signature that cover this line.",
  },
  unsealed: {
    tone: "warn",
    icon: "shield",
    title: "Not sealed yet",
    text: "No signed checkpoint covers this line yet.",
  },
  broken: {
    tone: "bad",
    icon: "broken",
    title: "Seal broken",
    text: "The line, or one before it, is not what was sealed.",
  },
};

/** Shown elsewhere on the card. */
const LEFT_OUT = new Set(["text", "origin"]);

function facts(proof: Proof): [string, string][] {
  const parts: [string, Record<string, unknown> | null | undefined][] = [
    ["frame", proof.frame],
    ["checkpoint", proof.checkpoint],
  ];
  return parts.flatMap(([prefix, part]) =>
    Object.entries(part ?? {})
      .filter(([name, value]) => value !== null && typeof value !== "object" && !LEFT_OUT.has(name))
      .map(([name, value]): [string, string] => [
        `${prefix} ${name.replace(/_s$/, "").replaceAll("_", " ")}`,
        name === "time_s" ? dateTime(Number(value) * 1e6) : shown(value),
      ]),
  );
}

function shown(value: unknown): string {
  const at = typeof value === "string" ? parseInstant(value) : null;
  if (at !== null) {
    return dateTime(at, 6);
  }
  if (typeof value === "boolean") {
    return value ? "yes" : "no";
  }
  return String(value);
}

/** Whether the record can be proven, and where it lies in the evidence. */
export function ProofCard(props: { answer: RecordAnswer }) {
  const proof = () => props.answer.proof;
  const verdict = () => VERDICTS[proof().state] ?? VERDICTS.unsealed;
  return (
    <section class="panel proof-card" aria-label="Proof">
      <div class={`proof-verdict ${verdict().tone}`}>
        <Icon name={verdict().icon} size={20} />
        <div>
          <strong>{verdict().title}</strong>
          <p class="second">
            <Text value={sentence(proof().message || verdict().text)} />
          </p>
        </div>
      </div>
      <dl class="facts">
        <dt>seq</dt>
        <dd class="num">{props.answer.record.seq}</dd>
        <dt>file</dt>
        <dd class="mono">
          <Text value={props.answer.file} />
        </dd>
        <dt>offset</dt>
        <dd class="num">{props.answer.offset}</dd>
        <dt>generation</dt>
        <dd class="num">{props.answer.generation}</dd>
        <Show when={proof().key}>
          {(key) => (
            <>
              <dt>key</dt>
              <dd class="mono">
                <Text value={key()} />
              </dd>
            </>
          )}
        </Show>
        <For each={facts(proof())}>
          {([name, value]) => (
            <>
              <dt>{name}</dt>
              <dd class="num">
                <Text value={value} />
              </dd>
            </>
          )}
        </For>
      </dl>
      <Show when={typeof proof().checkpoint?.text === "string" && proof().checkpoint?.text}>
        {(text) => <Raw title="Signed checkpoint" text={String(text())} />}
      </Show>
    </section>
  );
}
