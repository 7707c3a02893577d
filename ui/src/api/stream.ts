import { type Accessor, createEffect, createSignal, on, onCleanup } from "solid-js";
import { fetchMe, tailUrl } from "./queries.ts";
import type { LogRecord } from "./types.ts";

export type TailState = "off" | "connecting" | "live";

interface Question {
  server: string[];
  q: string;
}

const RETRY_FIRST_MS = 500;
const RETRY_MOST_MS = 10_000;
/** Records that arrive within this time are shown together: a busy server sends thousands. */
const BATCH_MS = 150;

/**
 * Follows new records while `question` is not `null`. `onOpen` runs whenever the stream begins
 * anew: what came in between has to be fetched. `onMissed` gets the number of records that the hub
 * has left out because there were too many.
 */
export function createTail(
  question: Accessor<Question | null>,
  onRecords: (records: LogRecord[]) => void,
  onOpen: () => void,
  onMissed: (count: number) => void,
): Accessor<TailState> {
  const [state, setState] = createSignal<TailState>("off");
  let source: EventSource | undefined;
  let timer: ReturnType<typeof setTimeout> | undefined;
  let flush: ReturnType<typeof setTimeout> | undefined;
  let waiting: LogRecord[] = [];
  let pause = RETRY_FIRST_MS;

  const close = () => {
    clearTimeout(timer);
    clearTimeout(flush);
    source?.close();
    flush = undefined;
    waiting = [];
  };
  const take = (event: MessageEvent<string>) => {
    // The stream is in the order of arrival; the list has the newest first.
    waiting.unshift(JSON.parse(event.data) as LogRecord);
    flush ??= setTimeout(() => {
      flush = undefined;
      onRecords(waiting);
      waiting = [];
    }, BATCH_MS);
  };
  const open = (asked: Question) => {
    close();
    setState("connecting");
    source = new EventSource(tailUrl(asked.server, asked.q));
    source.addEventListener("open", () => {
      pause = RETRY_FIRST_MS;
      setState("live");
      onOpen();
    });
    source.addEventListener("record", take);
    source.addEventListener("lag", (event: MessageEvent<string>) => {
      const { missed } = JSON.parse(event.data) as { missed?: number };
      if (missed !== undefined && missed > 0) {
        onMissed(missed);
      }
    });
    // The hub's event `failure` needs nothing here: a query has failed, and is tried again.
    source.addEventListener("error", () => {
      setState("connecting");
      // An EventSource hides the reason; if the session has ended, this leads to the sign-in.
      void fetchMe().catch(() => {});
      source?.close();
      clearTimeout(timer);
      timer = setTimeout(() => open(asked), pause);
      pause = Math.min(pause * 2, RETRY_MOST_MS);
    });
  };
  createEffect(
    on(
      () => JSON.stringify(question()),
      (text) => {
        const asked = JSON.parse(text) as Question | null;
        if (asked === null) {
          close();
          setState("off");
        } else {
          open(asked);
        }
      },
    ),
  );
  onCleanup(close);
  return state;
}
